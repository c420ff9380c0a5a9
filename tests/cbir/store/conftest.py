"""Small collections of made-up vectors: these tests are about keeping them, not about pictures."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cbir.store import Collection, Record
from cbir.store import profile as profiles
from cbir.store.postgresql_address import files_folder
from cbir.store.writer import Entry
from tests.postgresql_server import PostgresqlServer

MakeEntries = Callable[..., list[Entry]]


# Tests of SQLite's own files, and of what only they need: damage, backups, upgrades. Files, or names of tests.
SQLITE_ALONE = {
    "test_backup.py",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test of a collection on both databases, but for those of SQLite's files."""
    if "new_folder" in metafunc.fixturenames:
        alone = {metafunc.definition.path.name, metafunc.function.__name__} & SQLITE_ALONE
        other = [] if alone else [pytest.param("postgresql", marks=pytest.mark.slow)]
        metafunc.parametrize("new_folder", ["sqlite", *other], indirect=True)


@pytest.fixture
def new_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Path]]:
    """Returns the folder of a collection by its name, which in PostgreSQL is in a schema of its own."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield lambda name: tmp_path / name
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    addresses: dict[str, str] = {}
    yield lambda name: files_folder(addresses.setdefault(name, server.new_address()))
    server.drop_schemas(addresses.values())


@pytest.fixture
def collection(new_folder: Callable[[str], Path]) -> Iterator[Collection]:
    """An empty collection of Tamura vectors (6 values), in SQLite and then in PostgreSQL."""
    with Collection.create(new_folder("collection"), profiles.get("tamura")) as created:
        yield created


@pytest.fixture
def entries() -> MakeEntries:
    """A function that makes entries numbered start..stop-1, always the same for the same number."""

    def make(start: int, stop: int, patient: str | None = None, **labels: str) -> list[Entry]:
        return [entry(number, patient, labels) for number in range(start, stop)]

    return make


def entry(number: int, patient: str | None = None, labels: dict[str, str] | None = None) -> Entry:
    """The entry with that number."""
    content_hash = hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()
    record = Record(
        content_hash=content_hash,
        source=f"/images/{number}.png",
        source_stamp="1",
        format="png",
        width=10,
        height=20,
        patient_key=patient,
        labels=labels or {},
    )
    return record, np.random.default_rng(number).normal(5.0, 2.0, 6).astype(np.float32)
