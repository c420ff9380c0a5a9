"""The last good copy is replaced by one that was checked, and every file of it and of a backup is in a manifest."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from cbir.errors import CollectionDamaged
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import collection_folder
from cbir.store.index.open_index import open_index
from cbir.store.records import originals
from cbir.store.safety import last_good
from cbir.store.safety.last_good import differing_definitions
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.backup_log import append_log
from cbir.store.upkeep.collection_copy import copy_collection
from cbir.store.upkeep.restore import open_or_fallback, restore_backup
from cbir.store.upkeep.verify import is_backup, verify_collection
from tests.cbir.store.conftest import MakeEntries
from tests.earlier_backups import forget_manifest

pytestmark = pytest.mark.usefixtures("large_snapshots")


@pytest.fixture
def full(collection: Collection, entries: MakeEntries) -> Collection:
    with collection.writer() as writer:
        writer.add(entries(0, 20, label="x"))
        writer.compact()
    return collection


def flip(path: Path, at: int = -30) -> None:
    """Flip a bit of a file that may be a link."""
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.unlink()
    path.write_bytes(content)


def test_a_copy_that_cannot_be_read_back_replaces_nothing(
    full: Collection, entries: MakeEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = full.folder / last_good.NAME
    before = copy.stat().st_ino

    def damage(folder: Path, mode: int | None = None) -> None:
        database = folder / last_good.PARTIAL / "collection.sqlite"
        if database.exists() and database.stat().st_size:
            with database.open("r+b") as file:
                file.seek(8192)
                file.write(bytes(8192))

    monkeypatch.setattr(last_good.metadata, "find_value", lambda *_: damage(full.folder))
    with full._engine.connect(), pytest.raises(CollectionDamaged, match="cannot be read back"):
        last_good.store_last_good(full.folder, full._engine, ())
    assert copy.stat().st_ino == before
    assert not (full.folder / last_good.PARTIAL).exists()


def test_a_copy_without_a_manifest_replaces_nothing(
    full: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (full.folder / last_good.NAME).stat().st_ino

    def fail(*_: object) -> None:
        raise OSError("disk")

    monkeypatch.setattr(collection_folder, "write_sums", fail)
    with pytest.raises(OSError, match="disk"):
        last_good.store_last_good(full.folder, full._engine, ())
    assert (full.folder / last_good.NAME).stat().st_ino == before


@pytest.mark.parametrize("left", ["both", "previous"])
def test_an_interrupted_replacement_is_finished(full: Collection, left: str) -> None:
    full.close()
    copy, previous = full.folder / last_good.NAME, full.folder / last_good.PREVIOUS
    shutil.copytree(copy, previous)
    if left == "previous":
        shutil.rmtree(copy)
        (full.folder / "collection.sqlite").write_bytes(b"")
        with open_or_fallback(full.folder) as opened:
            assert len(opened) == 20
    else:
        with Collection(full.folder) as opened, opened.writer():
            pass
    assert copy.exists()
    assert not previous.exists()


def test_a_copy_has_no_vector_index(full: Collection) -> None:
    (full.folder / "collection.sqlite").write_bytes(b"")
    with open_or_fallback(full.folder) as opened:
        assert opened.fallback_for
        assert open_index(opened, Settings(index="hnsw")) is None


def test_deletions_reach_the_copy_whose_replacement_was_interrupted(full: Collection) -> None:
    copy = full.folder / last_good.NAME
    copy.rename(full.folder / last_good.PREVIOUS)
    image_id = full.image_ids()[1]
    with full.writer() as writer:
        writer.delete([image_id])
    with Collection(copy) as opened:
        assert len(opened) == 19
        assert image_id not in opened.image_ids().values()
    assert not verify_collection(full)


def test_a_copy_that_alone_is_sound_is_not_dropped(full: Collection) -> None:
    database = full.folder / last_good.NAME / "collection.sqlite"
    sound = database.read_bytes()
    database.write_bytes(b"")  # nothing can be deleted from it
    with full._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE labels SET value = 'y' WHERE number = 3")
    for attempt in (
        lambda writer: writer.delete([full.image_ids()[1]]),
        lambda writer: writer.erase_patient(["a" * 32]),
    ):
        with pytest.raises(CollectionDamaged, match="labels"), full.writer() as writer:
            attempt(writer)
    assert database.exists()
    assert len(full) == 20
    database.write_bytes(sound)


def test_a_repair_that_loses_rows_keeps_the_copy(full: Collection) -> None:
    from typer.testing import CliRunner

    from cbir.api.main import app

    with full._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM row_totals WHERE name = 'labels'")
        connection.exec_driver_sql("DELETE FROM labels WHERE number < 5")
    before = (full.folder / last_good.NAME).stat().st_ino
    CliRunner().invoke(app, ["collection", "verify", "--repair", "--collection", str(full.folder)])
    assert (full.folder / last_good.NAME).stat().st_ino == before


@pytest.mark.parametrize(
    "pattern", ["collection.sqlite", "patient.key", "SHA256SUMS", "*.index", "*.neighbours", "*.codes"]
)
def test_verify_reads_every_file_of_the_copy(full: Collection, pattern: str) -> None:
    (path,) = (full.folder / last_good.NAME).rglob(pattern)
    flip(path)
    assert "last good copy" in verify_collection(full)[0]


def test_a_deletion_leaves_the_copy_sound(full: Collection) -> None:
    with full.writer() as writer:
        writer.delete(list(full.image_ids().values())[:2])
    assert not verify_collection(full)
    assert collection_folder.read_sums(full.folder / last_good.NAME).keys() == {"patient.key"}


@pytest.fixture
def backup(full: Collection, entries: MakeEntries, tmp_path: Path) -> Path:
    with full.writer() as writer:
        writer.add(entries(20, 22))
    originals.store_original(full.folder, b"a file")
    back_up_collection(full, tmp_path / "backup", log=True)
    with full.writer() as writer:
        writer.add(entries(22, 25))
        originals.store_original(full.folder, b"another file")
        append_log(full, tmp_path / "backup")
    return tmp_path / "backup"


def test_sha256sum_checks_a_backup(backup: Path) -> None:
    names = {path.relative_to(backup).as_posix() for path in backup.rglob("*") if path.is_file()}
    assert collection_folder.read_sums(backup).keys() == names - {collection_folder.MANIFEST_NAME}
    if shutil.which("sha256sum"):
        subprocess.run(
            ["sha256sum", "--check", "--strict", collection_folder.MANIFEST_NAME], cwd=backup, check=True
        )
    with Collection(backup) as opened:
        assert not verify_collection(opened)
    assert restore_backup(backup, backup.with_name("restored")).images == 25


def test_every_file_of_a_backup_is_checked(backup: Path) -> None:
    for path in [path for path in backup.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        flip(path, at=len(content) // 2)
        with pytest.raises(CollectionDamaged):
            restore_backup(backup, backup.with_name("restored"))
        with Collection(backup) as opened:
            assert verify_collection(opened), path.name
        path.write_bytes(content)
        path.rename(backup.with_name("aside"))
        with pytest.raises((CollectionDamaged, LookupError, Exception)):
            restore_backup(backup, backup.with_name("restored"))
        assert not backup.with_name("restored").exists()
        backup.with_name("aside").rename(path)


def test_a_backup_that_has_lost_its_manifest_is_refused(full: Collection, backup: Path) -> None:
    (backup / collection_folder.MANIFEST_NAME).unlink()
    with Collection(backup) as opened:
        assert [f"SHA256SUMS of {backup} is missing" in line for line in verify_collection(opened)] == [True]
    restored = backup.with_name("restored")
    with pytest.raises(CollectionDamaged, match=r"SHA256SUMS .* is missing"):
        restore_backup(backup, restored)
    assert not restored.exists()
    with full.writer(), pytest.raises(CollectionDamaged, match="make a new backup"):
        append_log(full, backup)
    assert restore_backup(backup, restored, without_manifest=True).images == 25
    with Collection(restored) as opened:
        assert not verify_collection(opened)


def test_a_last_good_copy_that_has_lost_its_manifest_is_refused(full: Collection) -> None:
    copy, restored = full.folder / last_good.NAME, full.folder.with_name("restored")
    (copy / collection_folder.MANIFEST_NAME).unlink()
    with pytest.raises(CollectionDamaged, match=r"SHA256SUMS .* is missing"):
        restore_backup(copy, restored)
    assert restore_backup(copy, restored, without_manifest=True).images


def test_a_copy_of_a_backup_is_no_backup(backup: Path) -> None:
    with Collection(backup) as opened:
        copy_collection(opened, backup.with_name("copy"), lambda *_: None)
    with Collection(backup.with_name("copy")) as opened:
        assert not is_backup(opened)
        assert not verify_collection(opened)


def test_an_earlier_backup_without_a_manifest_is_restored_and_verified(backup: Path) -> None:
    forget_manifest(backup)
    with Collection(backup) as opened:
        assert not verify_collection(opened)
    assert restore_backup(backup, backup.with_name("restored")).images == 25


def test_a_changed_history_is_noticed(full: Collection) -> None:
    with full._engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER total_changes_update")
        connection.exec_driver_sql("UPDATE changes SET who = 'someone else' WHERE change = 1")
    assert "history (changes)" in verify_collection(full)[0]


def test_the_history_of_an_old_collection_is_summed_with_the_next_change(full: Collection) -> None:
    with full._engine.begin() as connection:
        for event in ("insert", "delete", "update"):
            connection.exec_driver_sql(f"DROP TRIGGER total_changes_{event}")
        connection.exec_driver_sql("DELETE FROM row_totals WHERE name = 'changes'")
    with Collection(full.folder) as opened, opened.writer():
        pass
    with full._engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT total FROM row_totals WHERE name = 'changes'").scalar()


def test_a_changed_trigger_is_noticed(full: Collection) -> None:
    with full._engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER total_labels_insert")
    assert "total_labels_insert" in verify_collection(full)[0]
    with Collection(full.folder / last_good.NAME) as copy, copy._engine.connect() as theirs:
        assert differing_definitions(theirs, theirs) == []


@pytest.mark.parametrize("what", ["history", "trigger"])
def test_damage_of_the_database_is_not_copied_over_a_sound_copy(full: Collection, what: str) -> None:
    with full._engine.begin() as connection:
        if what == "history":
            connection.exec_driver_sql("UPDATE row_totals SET total = total + 1 WHERE name = 'changes'")
        else:
            connection.exec_driver_sql("DROP TRIGGER total_labels_delete")
    copy = full.folder / last_good.NAME
    before = copy.stat().st_ino
    expected = "rows of the history" if what == "history" else "defines total_labels_delete in another way"
    with full.writer() as writer, pytest.raises(CollectionDamaged, match=expected):
        writer.compact()
    assert copy.stat().st_ino == before


def test_a_copy_with_another_definition_that_is_damaged_is_replaced(full: Collection) -> None:
    copy = full.folder / last_good.NAME
    with Collection(copy) as opened, opened._engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER total_labels_delete")
    assert "damaged" in verify_collection(full)[0]
    with full.writer() as writer:
        writer.compact()
    assert not verify_collection(full)


def test_a_copy_that_has_lost_its_manifest_is_noticed(full: Collection) -> None:
    (full.folder / last_good.NAME / collection_folder.MANIFEST_NAME).unlink()
    assert "manifest SHA256SUMS is missing" in verify_collection(full)[0]


def test_the_manifest_has_the_hashes_of_sha256(tmp_path: Path) -> None:
    (tmp_path / "a file").write_bytes(b"content")
    collection_folder.write_sums(tmp_path, ["a file"])
    assert collection_folder.read_sums(tmp_path) == {"a file": hashlib.sha256(b"content").hexdigest()}
    for at in range((tmp_path / collection_folder.MANIFEST_NAME).stat().st_size):
        content = (tmp_path / collection_folder.MANIFEST_NAME).read_bytes()
        flip(tmp_path / collection_folder.MANIFEST_NAME, at)
        with pytest.raises(CollectionDamaged, match="manifest"):
            collection_folder.read_sums(tmp_path)
        (tmp_path / collection_folder.MANIFEST_NAME).write_bytes(content)
