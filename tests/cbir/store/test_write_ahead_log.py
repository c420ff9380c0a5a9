"""Damage of SQLite's write-ahead log that a killed process left is seen, before SQLite drops what follows."""

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from cbir.errors import CollectionDamaged
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.safety.database_files import find_log_damage, log_of
from cbir.store.upkeep.restore import restore_backup
from tests.cbir.store.conftest import entry
from tests.service.conftest import command

FRAME = 24 + 4096
ADDED = 3  # transactions that the log holds, of an image each


def write_and_die(folder: Path) -> None:
    """Write some transactions, and end like a killed process."""
    with Collection(folder) as collection, collection.writer() as writer:
        for number in range(ADDED):
            writer.add([entry(100 + number)])
        os._exit(0)  # closes nothing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Collection whose writer was killed, with a last good copy."""
    folder = tmp_path / "collection"
    with Collection.create(folder, profiles.get("tamura")) as collection, collection.writer() as writer:
        writer.add([entry(number) for number in range(20)])
        writer.compact()
    process = get_context("fork").Process(target=write_and_die, args=(folder,))
    process.start()
    process.join()
    assert log_of(folder / "collection.sqlite").stat().st_size
    return folder


def damage(path: Path, place: int, mask: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= mask
    path.write_bytes(content)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def verify(folder: Path, *options: str) -> tuple[int, str]:
    code, out, error = command("collection", "verify", *options, "--collection", str(folder))
    return code, out + error


def test_the_log_of_a_killed_process_is_sound(folder: Path) -> None:
    assert verify(folder) == (0, "no problems\n")
    with Collection(folder) as collection:
        assert len(collection) == 20 + ADDED


def test_a_damaged_frame_is_reported_and_nothing_is_dropped(folder: Path) -> None:
    log = log_of(folder / "collection.sqlite")
    frames = log.stat().st_size // FRAME
    damage(log, 32 + FRAME + 500)
    before = files(folder)
    code, printed = verify(folder)
    assert code
    assert f"{log} is damaged at frame 2 of {frames}: changes from there on are lost" in printed
    assert "cbir collection restore" in printed
    assert "--repair" in printed
    with pytest.raises(CollectionDamaged, match="frame 2"):
        Collection(folder)
    assert Collection.exists(folder)
    with pytest.raises(CollectionDamaged, match="frame 2"):
        restore_backup(folder, folder.with_name("restored"))
    assert files(folder) == before


def test_a_repair_keeps_what_is_before_the_damage(folder: Path) -> None:
    damage(log_of(folder / "collection.sqlite"), -1)
    code, printed = verify(folder, "--repair")
    assert (code, "not restored: the write-ahead log" in printed) == (0, True), printed
    assert verify(folder) == (0, "no problems\n")
    with Collection(folder) as collection:
        assert len(collection) == 20 + ADDED - 1


def test_a_last_good_copy_with_a_damaged_log_is_not_written_to(folder: Path) -> None:
    copy = folder / "last-good"
    with closing(sqlite3.connect(copy / "collection.sqlite", isolation_level=None)) as writing:
        writing.execute("PRAGMA journal_mode = WAL")
        writing.execute("PRAGMA user_version = 1")
        log = log_of(copy / "collection.sqlite").read_bytes()
        writing.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    log_of(copy / "collection.sqlite").write_bytes(log)
    damage(log_of(copy / "collection.sqlite"), 32 + 100)
    with Collection(folder) as collection, collection.writer() as writer:
        writer.delete([entry(3)[0].image_id])
    assert not copy.exists(), "it could show what was deleted"


Log = tuple[Path, sqlite3.Connection]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Log with frames of an earlier use behind those of the present one, and the connection that writes it."""
    database = tmp_path / "rows.sqlite"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for setting in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0", "cache_size=5"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("CREATE TABLE pages (content BLOB)")
        add(connection, 60)
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        for _ in range(4):
            add(connection, 3)
        yield log_of(database), connection


def add(connection: sqlite3.Connection, pages: int, end: str = "COMMIT") -> None:
    connection.execute("BEGIN")
    for _ in range(pages):
        connection.execute("INSERT INTO pages VALUES (randomblob(3000))")
    connection.execute(end)


def read_rows(folder: Path, database: bytes, log: bytes) -> object:
    """Return what SQLite makes of a database and its log."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "rows.sqlite").write_bytes(database)
    (folder / "rows.sqlite-wal").write_bytes(log)
    try:
        with closing(sqlite3.connect(folder / "rows.sqlite")) as connection:
            return connection.execute("SELECT rowid, content FROM pages").fetchall()
    except sqlite3.Error:
        return None


def test_exactly_what_loses_rows_is_damage(log: Log, tmp_path: Path) -> None:
    path, _ = log
    content, database = path.read_bytes(), path.with_name("rows.sqlite").read_bytes()
    sound = read_rows(tmp_path / "read", database, content)
    choose = random.Random(1)
    fields = [32 + FRAME * frame + byte for frame in range(len(content) // FRAME) for byte in range(24)]
    places = [*range(32), *choose.sample(fields, 80), *choose.sample(range(len(content)), 60)]
    outcomes = set()
    for place in places:
        changed = bytearray(content)
        changed[place] ^= choose.choice([1 << choose.randrange(8), choose.randrange(1, 256)])
        copy = tmp_path / "damaged-wal"
        copy.write_bytes(changed)
        loses = read_rows(tmp_path / "read", database, bytes(changed)) != sound
        assert bool(find_log_damage(copy)) == loses, place
        outcomes.add(loses)
    assert outcomes == {True, False}, "frames of the earlier use lose nothing"


def test_a_lost_sector_of_an_earlier_transaction_is_damage(log: Log) -> None:
    path, _ = log
    content = bytearray(path.read_bytes())
    content[4096:8192] = bytes(4096)
    path.write_bytes(content)
    assert find_log_damage(path)


def test_what_a_power_cut_leaves_of_the_last_transaction_is_no_damage(log: Log, tmp_path: Path) -> None:
    path, connection = log
    choose = random.Random(1)
    for _ in range(20):
        before = path.read_bytes()
        add(connection, choose.randrange(1, 12))
        after = path.read_bytes()
        before += bytes(len(after) - len(before))
        for _ in range(10):
            torn, size, share = bytearray(after), choose.choice([512, 4096]), choose.random()
            for start in range(0, len(after), size):
                if choose.random() < share:  # its write was lost
                    torn[start : start + size] = before[start : start + size]
            (tmp_path / "torn-wal").write_bytes(torn)
            assert find_log_damage(tmp_path / "torn-wal") is None or torn == after
            (tmp_path / "torn-wal").write_bytes(after[: choose.randrange(len(after))])
            assert find_log_damage(tmp_path / "torn-wal") is None


def test_what_was_rolled_back_is_no_damage(log: Log) -> None:
    path, connection = log
    add(connection, 40, "ROLLBACK")  # more pages than the cache has, so they are in the log
    add(connection, 2)
    assert path.read_bytes()
    assert find_log_damage(path) is None


def test_a_log_that_is_written_meanwhile_is_sound(log: Log) -> None:
    path, connection = log
    writing = get_context("fork")  # a process, since threads of one process take turns
    process = writing.Process(target=_write_for_ever, args=(path.with_name("rows.sqlite"),))
    connection.close()
    process.start()
    try:
        assert [find_log_damage(path) for _ in range(300)] == [None] * 300
    finally:
        process.kill()
        process.join()
    assert find_log_damage(path) is None


def _write_for_ever(database: Path) -> None:
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA cache_size = 5")
    number = 0
    while True:
        number += 1
        add(connection, number % 15, "ROLLBACK" if number % 4 == 0 else "COMMIT")
        if number % 7 == 0:
            connection.execute("PRAGMA wal_checkpoint(RESTART)")
