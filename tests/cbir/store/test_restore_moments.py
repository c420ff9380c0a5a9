"""Moments that a backup covers, and those that it does not."""

import shutil
import sqlite3
import threading
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cbir.api.main import app as commands
from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.backup_log import append_log
from cbir.store.upkeep.restore import parse_moment, restore_backup
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry
from tests.rights import obeying_rights, without_rights


def add(collection: Collection, *numbers: int) -> None:
    with collection.writer() as writer:
        writer.add([entry(number) for number in numbers])


@pytest.fixture
def logged(collection: Collection, tmp_path: Path) -> Path:
    """A backup of change 2 whose log ends with change 3."""
    add(collection, 0, 1)
    add(collection, 2)
    back_up_collection(collection, tmp_path / "backup", log=True)
    add(collection, 3)
    with collection.writer():
        append_log(collection, tmp_path / "backup")
    return tmp_path / "backup"


def test_a_pruned_history_does_not_open_earlier_moments(collection: Collection, tmp_path: Path) -> None:
    add(collection, 0)
    with collection.writer() as writer:
        writer.compact(history_days=0)
    back_up_collection(collection, tmp_path / "backup", log=True)
    for moment in (0, datetime(2000, 1, 1, tzinfo=UTC)):
        with pytest.raises(InvalidInput, match="earlier backup"):
            restore_backup(tmp_path / "backup", tmp_path / "restored", moment)
    assert restore_backup(tmp_path / "backup", tmp_path / "restored", 1).images == 1


def test_later_moments_than_the_log_are_refused(logged: Path, tmp_path: Path) -> None:
    for moment in (4, datetime.now(UTC) + timedelta(seconds=1)):
        with pytest.raises(InvalidInput, match="end "):
            restore_backup(logged, tmp_path / "restored", moment)
        assert not (tmp_path / "restored").exists()
    assert restore_backup(logged, tmp_path / "restored", 3).images == 4


def test_a_quiet_time_before_the_last_append_is_covered(
    collection: Collection, logged: Path, tmp_path: Path
) -> None:
    quiet = datetime.now(UTC)
    with pytest.raises(InvalidInput, match="end at"):
        restore_backup(logged, tmp_path / "restored", quiet)
    with collection.writer():
        assert append_log(collection, logged) == 0
    assert restore_backup(logged, tmp_path / "restored", quiet).change == 3


def test_moments_of_what_is_no_backup(collection: Collection, tmp_path: Path) -> None:
    add(collection, 0)
    with pytest.raises(InvalidInput, match="no backup"):
        restore_backup(collection.folder, tmp_path / "restored", 1)


def test_a_restored_collection_is_no_backup(logged: Path, tmp_path: Path) -> None:
    restore_backup(logged, tmp_path / "restored")
    with pytest.raises(InvalidInput, match="no backup"):
        restore_backup(tmp_path / "restored", tmp_path / "again", 3)


@pytest.mark.parametrize("text", ["20300131", "", "  "])
def test_ambiguous_moments_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_moment(text)


def test_eight_digits_that_are_no_date_are_a_change() -> None:
    assert parse_moment("20301331") == 20301331


def test_an_empty_moment_is_not_the_latest(logged: Path, tmp_path: Path) -> None:
    arguments = ["collection", "restore", str(logged), str(tmp_path / "restored"), "--at", ""]
    assert CliRunner().invoke(commands, arguments).exit_code != 0
    assert not (tmp_path / "restored").exists()


def test_a_collection_in_use_is_restored_as_of_one_moment(collection: Collection, tmp_path: Path) -> None:
    """Its files alone, copied one after the other, would be of different moments."""
    add(collection, *range(200))
    done = threading.Event()

    def write() -> None:
        number = 1000
        while not done.is_set():
            add(collection, number)
            with closing(sqlite3.connect(collection.folder / "collection.sqlite")) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(3):
            assert restore_backup(collection.folder, tmp_path / f"restored-{number}").images >= 200
    finally:
        done.set()
        thread.join()
    with Collection(tmp_path / "restored-0") as restored:
        assert verify_collection(restored) == []


def test_a_backup_that_cannot_be_written_to_is_restored(logged: Path, tmp_path: Path) -> None:
    shutil.copytree(logged, tmp_path / "read-only")
    with ExitStack() as stack:
        for path in (*(tmp_path / "read-only").rglob("*"), tmp_path / "read-only"):
            stack.enter_context(without_rights(path, 0o500))
        restored = obeying_rights(lambda: restore_backup(tmp_path / "read-only", tmp_path / "restored"))
    assert restored.images == 4
