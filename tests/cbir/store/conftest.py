"""Small collections of made-up vectors: these tests are about keeping them, not about pictures."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.views import snapshot_build
from cbir.store.writing.writer import Entry
from tests.postgresql_server import PostgresqlServer

MakeEntries = Callable[..., list[Entry]]


# Tests of SQLite's own files, and of what only they need: damage, backups, upgrades. Files, or names of tests.
SQLITE_ALONE = {
    "test_backup.py",
    "test_bench_damage.py",
    "test_format.py",
    "test_kill.py",
    "test_last_good_copy.py",
    "test_lost_database.py",
    "test_lost_rows.py",
    "test_patient_key.py",
    "test_read_only.py",
    "test_restore.py",
    "test_restore_moments.py",
    "test_row_damage.py",
    "test_unreadable_files.py",
    "test_upgrade_guard.py",
    "test_a_backup_without_an_original_is_refused",
    "test_a_damaged_database_is_named_as_such",
    "test_a_file_added_and_deleted_between_two_appends_is_restored",
    "test_a_group_that_was_let_in_reads_new_files_too",
    "test_a_key_in_the_log_of_changes_is_found",
    "test_a_lost_original_is_noticed",
    "test_a_source_restored_from_an_older_backup_brings_nobody_back",
    "test_damage_of_the_source_is_not_carried_over",
    "test_a_search_for_traces_that_damage_ends_says_so",
    "test_codes_file.py",
    "test_another_storage_format_is_refused_with_what_to_do",
    "test_compacting_gives_space_back",
    "test_erasing_a_patient_leaves_no_trace_in_any_file",
    "test_erasing_says_when_a_reader_still_holds_old_pages",
    "test_every_trace_goes_from_every_file",
    "test_matching_finds_what_comparing_finds",
    "test_neighbours_and_normalised_vectors_are_those_of_the_others_alone",
    "test_one_writer_at_a_time",
    "test_own_images_of_the_target_stay_when_its_history_is_pruned",
    "test_originals_that_wait_for_an_append_are_told",
    "test_the_last_good_copy_is_restored_with_all_files",
    "test_the_last_good_copy_is_restored_without_a_lost_original",
    "test_traces_are_searched_for_beside_other_problems",
    "test_verify_finds_damage",
    "test_damage_is_found_in_the_quarantine",
    "test_what_is_left_is_told_and_compacting_removes_it",
}


# Tests of carrying images over from one database to the other, which take long.
BETWEEN_DATABASES = {
    "test_dicom_instances_with_the_same_picture_are_carried_and_erased",
    "test_images_that_are_added_before_others_are_seen",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test of a collection on both databases, but for those of SQLite's files."""
    if "target_database" in metafunc.fixturenames:
        _between_databases(metafunc)
    elif "new_folder" in metafunc.fixturenames:
        alone = {metafunc.definition.path.name, metafunc.function.__name__} & SQLITE_ALONE
        other = [] if alone else [pytest.param("postgresql", marks=pytest.mark.slow)]
        metafunc.parametrize("new_folder", ["sqlite", *other], indirect=True)


def _between_databases(metafunc: pytest.Metafunc) -> None:
    """Run a test that carries images over within both databases, and some between them."""
    alone = metafunc.function.__name__ in SQLITE_ALONE
    others = [("postgresql", "postgresql")]
    if metafunc.function.__name__ in BETWEEN_DATABASES:
        others += [("sqlite", "postgresql"), ("postgresql", "sqlite")]
    slow = [] if alone else [pytest.param(*pair, marks=pytest.mark.slow) for pair in others]
    pairs = [("sqlite", "sqlite"), *slow]
    metafunc.parametrize(("new_folder", "target_database"), pairs, indirect=["new_folder"])


@pytest.fixture
def folder(
    target_database: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The folder of the collection that images are carried over to, in the database of the parameter."""
    if target_database == "sqlite":
        yield tmp_path / "target"
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    address = server.new_address()
    yield files_folder(address)
    server.drop_schemas([address])


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
def large_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every snapshot counts as a large one, which has codes of its vectors beside it."""
    monkeypatch.setattr(snapshot_build, "CODES_FROM", 1)


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


@pytest.fixture
def address(postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    new = postgresql.new_address()
    yield new
    postgresql.drop_schemas([new])


@pytest.fixture
def elsewhere(
    address: str, collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Collection]:
    """The same collection on another machine, which has files of its own."""
    with monkeypatch.context() as patch:
        patch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "other machine"))
        folder = files_folder(address)
    shutil.copy(collection.folder / "patient.key", folder)
    with Collection(folder) as opened:
        yield opened
