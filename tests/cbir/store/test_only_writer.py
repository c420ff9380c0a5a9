"""Who carries images over keeps other writers out, on all machines."""

import json
import shutil
from pathlib import Path

import pytest
from sqlalchemy import text

from cbir.errors import CollectionBusy, CollectionDamaged, DatabaseUnavailable, InvalidInput
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.postgresql import postgresql_database
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.upkeep.carry_over import open_counterpart
from tests.cbir.store.conftest import entry

pytestmark = pytest.mark.slow


@pytest.fixture
def collection(address):
    with Collection.create(files_folder(address), profiles.get("tamura")) as created:
        yield created


def test_other_writers_are_refused_at_once_until_the_end(collection, elsewhere, monkeypatch):
    monkeypatch.setattr(postgresql_database, "ALONE_WAIT", "200ms")
    with collection.only_writer() as writer:
        with elsewhere.writer() as other, pytest.raises(CollectionBusy, match="carried over to postgresql"):
            other.add([entry(1)])
        with pytest.raises(CollectionBusy, match="try again"), elsewhere.only_writer():
            pass
        assert writer.add([entry(2)]).ids
        assert len(elsewhere) == 1  # readers are not kept out
    with elsewhere.writer() as other:
        assert other.add([entry(1)]).ids


def test_a_lock_that_is_lost_with_its_connection_ends_the_run(collection, elsewhere):
    with collection.only_writer() as writer:
        with elsewhere.postgresql().engine.connect() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = :class"
                ),
                {"class": postgresql_database.ALONE_LOCK},
            )
        with pytest.raises(DatabaseUnavailable):
            writer.add([entry(1)])
    assert len(elsewhere) == 0


def test_a_target_is_refused_before_anything_is_written(collection, address, tmp_path):
    profile = profiles.get("color_layout")
    other_spelling = files_folder(f"{address}&application_name=other")
    assert other_spelling == collection.folder
    with Collection.create(tmp_path / "stranger", profile) as stranger:
        with pytest.raises(InvalidInput, match="another patient key"):
            open_counterpart(stranger, collection.folder, profile)
        new = Path(shutil.copytree(collection.folder, collection.folder.with_name("test_unused")))
        file = new / "database.json"
        file.write_text(file.read_text().replace(collection.folder.name, new.name))
        with pytest.raises(CollectionDamaged, match="are gone"):  # its files say that it had images
            open_counterpart(stranger, new, profile)
        content = json.loads(file.read_text())
        del content["collection_id"]
        file.write_text(json.dumps(content))
        with pytest.raises(InvalidInput, match="has the key of another collection"):
            open_counterpart(stranger, new, profile)
        assert not Collection.exists(new)
