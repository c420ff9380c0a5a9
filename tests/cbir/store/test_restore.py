"""Backups that a log continues, restored as of any moment."""

import random
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cbir.errors import CollectionDamaged, InvalidInput, NotFound
from cbir.store import Collection
from cbir.store.base import metadata
from cbir.store.records import originals
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.safety.change_log import OF_BACKUP
from cbir.store.upkeep import backup_log
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.backup_log import LOG_FILE, append_log
from cbir.store.upkeep.restore import parse_moment, restore_backup
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import MakeEntries, entry
from tests.earlier_backups import forget_manifest

TABLES = ("images", "vectors", "labels", "thumbnails", "forgotten", "erased", "changes", "changed_images")


def state(collection: Collection) -> dict[str, Any]:
    """Everything that a restore brings back."""
    collection.view()  # reads the profile
    with collection._engine.connect() as connection:
        rows = {
            table: sorted(map(repr, connection.exec_driver_sql(f"SELECT * FROM {table}").all()))
            for table in TABLES
        }
    return rows | {"profile": collection.profile.model_dump(), "statistics": statistics(collection)}


def statistics(collection: Collection) -> str | None:
    fitted = collection.statistics()
    return fitted.to_json() if fitted else None


def attach(transaction: AddTransaction, added: Added) -> None:
    transaction.store_thumbnails({number: f"picture {number}".encode() for number in added.numbers.values()})


def change(collection: Collection, choose: random.Random, number: int) -> None:
    """Change the collection in some way."""
    alive = [record for _, record in collection.iterate()]
    some = choose.choice(alive) if alive else None
    with collection.writer("somebody") as writer:
        match choose.choice(
            ["add", "add", "update", "delete", "label", "labels", "compact", "profile", "restore"]
        ):
            case "delete" if some:
                writer.delete([some.image_id])
            case "label" if some:
                writer.set_labels(
                    some.image_id, {"grade": str(number), "label": choose.choice(["x\0y", "ü", None])}
                )
            case "labels":
                writer.label_images("severity", {record.image_id: f"{number / 7}" for record in alive[:5]})
            case "update" if some:
                source = some.__class__(
                    **{**some.__dict__, "source_stamp": str(number), "patient_key": "b" * 32}
                )
                writer.add([(source, collection.vector(some.image_id))])
            case "compact":
                writer.compact(refit=choose.random() < 0.5)
            case "profile":
                rerank = {"C": number}
                writer.set_profile(collection.profile.model_copy(update={"rerank": rerank}))
            case "restore":
                writer.add([entry(n) for n in range(5)], restore=True)
            case _:
                first = 10 * number
                writer.add(
                    [entry(n, "a" * 32, {"label": "ä"}) for n in range(first, first + 3)],
                    in_transaction=attach,
                )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_every_moment_of_a_random_history_is_restored(
    collection: Collection, tmp_path: Path, seed: int
) -> None:
    choose = random.Random(seed)
    backup = tmp_path / "backup"
    moments: list[tuple[int, datetime, dict[str, Any]]] = []
    for number in range(1, 4):
        change(collection, choose, number)
    back_up_collection(collection, backup, log=True)
    for number in range(4, 24):
        change(collection, choose, number)
        moments.append((collection.history(limit=1)[0].change, datetime.now(UTC), state(collection)))
        if choose.random() < 0.3:
            with collection.writer():
                append_log(collection, backup)
    with collection.writer():
        append_log(collection, backup)
        assert append_log(collection, backup) == 0
    for at, (last, time, expected) in enumerate(choose.sample(moments, 6)):
        restore_backup(backup, tmp_path / f"by-time-{at}", time)
        with Collection(tmp_path / f"by-time-{at}") as restored:
            compare(restored, expected)
        restore_backup(backup, tmp_path / f"by-change-{at}", last)
        with Collection(tmp_path / f"by-change-{at}") as restored:
            newest_of_change = [known for change_, _, known in moments if change_ == last][-1]
            compare(restored, newest_of_change)
    result = restore_backup(backup, tmp_path / "latest")
    with Collection(tmp_path / "latest") as restored:
        compare(restored, moments[-1][2])
        assert result.images == len(restored) == len(restored.view())
        with restored.writer() as writer:
            assert len(writer.add([entry(10_000)]).ids) == 1
        assert verify_collection(restored) == []


def compare(restored: Collection, expected: dict[str, Any]) -> None:
    found = state(restored)
    if expected["statistics"] is None:  # a restored collection always has a snapshot
        found["statistics"] = None
    assert found == expected
    assert verify_collection(restored) == []


def test_originals_come_along(collection: Collection, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    back_up_collection(collection, backup, log=True)
    (record, vector) = entry(1)
    sent = record.__class__(**{**record.__dict__, "source": originals.source_of(b"a file")})
    with collection.writer() as writer:
        writer.add([(sent, vector)])
        originals.store_original(collection.folder, b"a file")
        append_log(collection, backup)
    restore_backup(backup, tmp_path / "restored")
    path = originals.original_path(tmp_path / "restored", sent.source)
    assert path is not None
    assert path.read_bytes() == b"a file"


def test_a_plain_backup_is_restored(collection: Collection, entries: MakeEntries, tmp_path: Path) -> None:
    with collection.writer() as writer:
        writer.add(entries(0, 9))
    back_up_collection(collection, tmp_path / "backup")
    assert restore_backup(tmp_path / "backup", tmp_path / "restored").images == 9
    with Collection(tmp_path / "restored") as restored:
        assert verify_collection(restored) == []
        assert not any(restored._read(metadata.find_value, key) for key in OF_BACKUP)
    with pytest.raises(InvalidInput, match="exists"):
        restore_backup(tmp_path / "backup", tmp_path / "restored")
    with pytest.raises(NotFound, match="no backup"):
        restore_backup(tmp_path / "nowhere", tmp_path / "other")
    (tmp_path / "backup" / "collection.sqlite").unlink()
    with pytest.raises(CollectionDamaged, match=r"the database collection\.sqlite of .* is missing"):
        restore_backup(tmp_path / "backup", tmp_path / "other")


@pytest.fixture
def logged(collection: Collection, entries: MakeEntries, tmp_path: Path) -> Path:
    """A backup of nine images that a log of three more continues."""
    with collection.writer() as writer:
        writer.add(entries(0, 9, patient="p"))
    back_up_collection(collection, tmp_path / "backup", log=True)
    with collection.writer() as writer:
        for number in range(9, 12):
            writer.add(entries(number, number + 1, patient="q"))
        append_log(collection, tmp_path / "backup")
    return tmp_path / "backup"


def test_the_log_is_moved_not_copied(collection: Collection, logged: Path) -> None:
    with collection._engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM change_log").scalar() == 0
    assert restore_backup(logged, logged.with_name("restored"), 2).images == 10


def test_earlier_moments_than_the_backup_are_refused(logged: Path) -> None:
    for moment in (0, datetime(2020, 1, 1, tzinfo=UTC)):
        with pytest.raises(InvalidInput, match="earlier backup"):
            restore_backup(logged, logged.with_name("restored"), moment)
    assert not logged.with_name("restored").exists()


@pytest.mark.parametrize("damage", ["UPDATE change_log SET row = replace(row, 'a', 'b') WHERE row IS NOT NULL",
                                    "DELETE FROM change_log WHERE entry = 3"])  # fmt: skip
def test_a_damaged_log_is_not_replayed(logged: Path, damage: str) -> None:
    with closing(sqlite3.connect(logged / LOG_FILE)) as log:
        log.execute(damage)
        log.commit()
    with pytest.raises(CollectionDamaged, match=f"since it was written: {LOG_FILE};"):
        restore_backup(logged, logged.with_name("restored"))
    forget_manifest(logged)
    with pytest.raises(CollectionDamaged, match="missing or damaged"):
        restore_backup(logged, logged.with_name("restored"))
    assert not logged.with_name("restored").exists()


@pytest.mark.parametrize("cut", [None, b""])
def test_a_log_that_is_gone_is_not_begun_again(
    collection: Collection, entries: MakeEntries, logged: Path, tmp_path: Path, cut: bytes | None
) -> None:
    (logged / LOG_FILE).unlink()
    if cut is not None:
        (logged / LOG_FILE).write_bytes(cut)
    with pytest.raises(CollectionDamaged):
        restore_backup(logged, tmp_path / "before")
    with collection.writer() as writer:
        writer.add(entries(20, 21))
        with pytest.raises((CollectionDamaged, InvalidInput)):
            append_log(collection, logged)
    with pytest.raises(CollectionDamaged):
        restore_backup(logged, tmp_path / "after")


def test_a_first_log_that_cannot_be_written_leaves_none(
    collection: Collection, entries: MakeEntries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = tmp_path / "backup"
    with collection.writer() as writer:
        writer.add(entries(0, 5))
    back_up_collection(collection, backup, log=True)
    with collection.writer() as writer:
        writer.add(entries(5, 8))
        with monkeypatch.context() as patched:
            patched.setattr(backup_log, "APPENDED", "CREATE TABLE")  # fails after the first table
            with pytest.raises(sqlite3.OperationalError):
                append_log(collection, backup)
        assert not (backup / LOG_FILE).exists()
        with Collection(backup) as opened:
            assert verify_collection(opened) == []
        assert append_log(collection, backup) == 1
    restore_backup(backup, tmp_path / "restored")
    with Collection(tmp_path / "restored") as restored:
        assert len(restored) == 8


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_lost_log_of_an_earlier_backup_is_noticed(
    collection: Collection, logged: Path, is_empty: bool
) -> None:
    """What the log had is in the collection no more, even if nothing is to be appended."""
    forget_manifest(logged)
    (logged / LOG_FILE).unlink()
    if is_empty:
        (logged / LOG_FILE).touch()
    with collection.writer(), pytest.raises(CollectionDamaged, match=r"entry \d+ of the log is missing"):
        append_log(collection, logged)


def test_erasing_a_patient_ends_the_log(collection: Collection, logged: Path) -> None:
    with collection.writer() as writer:
        writer.add([entry(100, "e" * 32)])
        writer.erase_patient(["e" * 32])
        with collection._engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM change_log").scalar() == 0
        with pytest.raises(InvalidInput, match="new backup"):
            append_log(collection, logged)
    kept = b"".join(path.read_bytes() for path in collection.folder.rglob("*") if path.is_file())
    assert b"e" * 32 not in kept
    assert entry(100)[1].tobytes().hex().upper().encode() not in kept


def test_a_new_log_does_not_continue_an_older_backup(
    collection: Collection, logged: Path, tmp_path: Path
) -> None:
    back_up_collection(collection, tmp_path / "newer", log=True)
    with collection.writer():
        assert append_log(collection, tmp_path / "newer") == 0
        with pytest.raises(InvalidInput, match="does not continue"):
            append_log(collection, logged)


def test_a_damaged_collection_makes_no_backup(
    collection: Collection, entries: MakeEntries, tmp_path: Path
) -> None:
    with collection.writer() as writer:
        writer.add(entries(0, 9, label="knee"))
    with collection._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE labels SET value = 'knie' WHERE number = 3")
    with pytest.raises(CollectionDamaged, match="not kept"):
        back_up_collection(collection, tmp_path / "backup")
    assert list(tmp_path.glob("backup*")) == []


def test_moments() -> None:
    assert parse_moment("17") == 17
    assert parse_moment("2030-01-31T12:00:00") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert parse_moment("2030-01-31T12:00:00+02:00") == datetime(2030, 1, 31, 10, tzinfo=UTC)
    with pytest.raises(InvalidInput, match="yesterday"):
        parse_moment("yesterday")
