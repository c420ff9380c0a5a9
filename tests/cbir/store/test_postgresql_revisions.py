"""Collections in PostgreSQL that earlier versions made are opened, read and written to."""

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine

from cbir.store import Collection
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.postgresql.postgresql_schema import HEAD
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry
from tests.cbir.store.make_revision import SCHEMA
from tests.postgresql_server import PostgresqlServer

STORED = sorted(Path(__file__).parent.glob("revision-*"))


@pytest.fixture(params=STORED, ids=lambda folder: folder.name)
def collection(request: pytest.FixtureRequest, postgresql: PostgresqlServer) -> Iterator[Collection]:
    """A collection restored from a dump; `make_revision` says how it was made."""
    address = f"{postgresql.url}&collection={SCHEMA}"
    engine = create_engine(postgresql.url)
    with engine.begin() as connection:
        connection.exec_driver_sql((request.param / "collection.sql").read_text().replace("%", "%%"))
    engine.dispose()
    folder = files_folder(address)
    shutil.copy(request.param / "patient.key", folder)
    with Collection(folder) as opened:
        yield opened
    postgresql.drop_schemas([address])


def test_there_is_one_of_the_present_revision() -> None:
    assert f"revision-{HEAD}" in [folder.name for folder in STORED]


@pytest.mark.slow
def test_all_is_read_and_more_is_added(collection: Collection, request: pytest.FixtureRequest) -> None:
    stored = request.node.callspec.params["collection"]
    expected = list(csv.reader((stored / "expected.csv").read_text().splitlines()))
    assert verify_collection(collection) == []
    records = [record for _, record in collection.iterate()]
    assert [[each.image_id, each.labels.get("label", ""), each.patient_key or ""] for each in records] == [
        row[:3] for row in expected
    ]
    for row in expected:
        np.testing.assert_array_equal(collection.vector(row[0]), np.array(row[3:], np.float32))
    with collection.writer() as writer:
        assert writer.add([entry(3)]).deleted_earlier == 1
        writer.add([entry(number) for number in range(100, 105)])
        writer.compact()
    assert len(collection.view()) == len(expected) + 5
    assert verify_collection(collection) == []
