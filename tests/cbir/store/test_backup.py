"""Backups that begin a log: the chain of the earlier backup ends only when the new one is there."""

from pathlib import Path

import pytest

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store import Collection
from cbir.store.records import originals
from cbir.store.upkeep import backup
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.backup_log import append_log
from cbir.store.upkeep.repair import repair_rows
from cbir.store.upkeep.restore import restore_backup
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry
from tests.cbir.store.test_restore import state


def add(collection: Collection, *numbers: int) -> None:
    with collection.writer() as writer:
        writer.add([entry(number) for number in numbers])


def append(collection: Collection, folder: Path) -> int:
    with collection.writer():
        return append_log(collection, folder)


def is_logged(collection: Collection) -> bool:
    with collection._engine.connect() as connection:
        query = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'log_%'"
        return bool(connection.exec_driver_sql(query).scalar())


@pytest.fixture
def damaged_original(collection: Collection) -> Path:
    """A file that makes every backup fail until it is deleted."""
    folder = collection.folder / originals.FOLDER
    folder.mkdir()
    (folder / ("0" * 32)).write_bytes(b"another file")
    return folder / ("0" * 32)


def test_a_failed_backup_leaves_the_earlier_log(
    collection: Collection, damaged_original: Path, tmp_path: Path
) -> None:
    damage = damaged_original.read_bytes()
    damaged_original.unlink()
    add(collection, 0, 1)
    back_up_collection(collection, tmp_path / "first", log=True)
    add(collection, 2)
    damaged_original.write_bytes(damage)
    with pytest.raises(CollectionDamaged, match="not kept"):
        back_up_collection(collection, tmp_path / "second", log=True)
    damaged_original.unlink()
    add(collection, 3)
    assert append(collection, tmp_path / "first") == 2
    assert restore_backup(tmp_path / "first", tmp_path / "restored").images == 4


def test_a_failed_first_backup_leaves_no_log(
    collection: Collection, damaged_original: Path, tmp_path: Path
) -> None:
    with pytest.raises(CollectionDamaged, match="not kept"):
        back_up_collection(collection, tmp_path / "first", log=True)
    assert not is_logged(collection)


def test_the_log_has_what_was_added_while_the_backup_was_made(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = backup._require_sound

    def add_meanwhile(folder: Path) -> None:
        verified(folder)
        add(collection, 5)

    add(collection, 0)
    back_up_collection(collection, tmp_path / "first", log=True)
    add(collection, 1)
    monkeypatch.setattr(backup, "_require_sound", add_meanwhile)
    back_up_collection(collection, tmp_path / "second", log=True)
    add(collection, 6)
    assert append(collection, tmp_path / "second") == 2
    with pytest.raises(InvalidInput, match="does not continue"):
        append(collection, tmp_path / "first")
    restore_backup(tmp_path / "second", tmp_path / "restored")
    with Collection(tmp_path / "restored") as restored:
        assert state(restored)["images"] == state(collection)["images"]
        assert verify_collection(restored) == []


@pytest.mark.parametrize("event", ["append", "erase"])
def test_a_log_that_ends_while_the_backup_is_made(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    verified = backup._require_sound

    def interfere(folder: Path) -> None:
        verified(folder)
        add(collection, 5)
        if event == "append":
            append(collection, tmp_path / "first")
        else:
            with collection.writer() as writer:
                writer.erase_patient(["nobody"])

    add(collection, 0)
    back_up_collection(collection, tmp_path / "first", log=True)
    monkeypatch.setattr(backup, "_require_sound", interfere)
    with pytest.raises(InvalidInput, match="while the backup was made"):
        back_up_collection(collection, tmp_path / "second", log=True)
    assert not list(tmp_path.glob("second*"))
    add(collection, 6)
    if event == "append":
        assert append(collection, tmp_path / "first") == 1


def damage_vector(collection: Collection) -> None:
    with collection._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE vectors SET vector = zeroblob(24) WHERE number = 1")


def test_repairing_no_row_keeps_the_log(collection: Collection, tmp_path: Path) -> None:
    add(collection, *range(6))
    with collection.writer() as writer:
        writer.compact()
    back_up_collection(collection, tmp_path / "first", log=True)
    add(collection, 7)
    with collection.writer():
        assert not repair_rows(collection).ended_log
    assert append(collection, tmp_path / "first") == 1


def test_repairing_a_row_ends_the_log_and_says_so(collection: Collection, tmp_path: Path) -> None:
    add(collection, *range(6))
    with collection.writer() as writer:
        writer.compact()
    back_up_collection(collection, tmp_path / "first", log=True)
    damage_vector(collection)
    with collection.writer():
        repair = repair_rows(collection)
    assert repair.restored
    assert repair.ended_log
    assert not is_logged(collection)
    assert verify_collection(collection) == []
    with pytest.raises(InvalidInput, match="make a new backup"):
        append(collection, tmp_path / "first")


def test_a_damaged_name_of_the_log_ends_it(collection: Collection, tmp_path: Path) -> None:
    add(collection, *range(6))
    back_up_collection(collection, tmp_path / "first", log=True)
    with collection._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE meta SET value = 'x' || value WHERE key = 'change_log'")
    with collection.writer():
        repair = repair_rows(collection)
    assert (repair.ended_log, repair.lost) == (True, [])
    assert verify_collection(collection) == []
    assert not is_logged(collection)
