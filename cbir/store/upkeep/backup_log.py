"""Log of changes beside a backup: one SQLite file, to which `append_log` adds what a collection logged."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store.base import collection_folder, metadata
from cbir.store.base.collection_folder import create_private_file
from cbir.store.base.damage import DAMAGE, changed_history, raise_when_full
from cbir.store.base.schema import DATABASE
from cbir.store.base.schema import change_log as schema_log
from cbir.store.base.statements import NULL, row_checksum
from cbir.store.collection import Collection
from cbir.store.records import originals
from cbir.store.safety import change_log
from cbir.system.files import SUFFIX, copy_file, sync_folder
from cbir.system.ownership import make_folder

LOG_FILE = "changes.sqlite"
TABLE = (
    "CREATE TABLE IF NOT EXISTS change_log (entry INTEGER PRIMARY KEY, at TEXT, row TEXT, checksum INTEGER)"
)
APPENDED = "CREATE TABLE IF NOT EXISTS appended (at TEXT)"  # times up to which the log has all changes


@dataclass(frozen=True)
class LogEntry:
    """Entry of the log: a changed row, or with `at` the end of a transaction."""

    entry: int
    at: str | None
    row: str | None
    checksum: int

    def is_sound(self) -> bool:
        """Return whether the entry matches its checksum."""
        return self.checksum == entry_checksum(self.entry, self.at, self.row)


def entry_checksum(entry: int, at: str | None, row: str | None) -> int:
    """Return the checksum of an entry.

    Parameters
    ----------
    entry : int
        Its number.
    at : str or None
        End of a transaction.
    row : str or None
        Changed row.
    """
    return row_checksum(b"%d" % entry, *(NULL if text is None else text.encode() for text in (at, row)))


def open_log(path: Path) -> sqlite3.Connection:
    """Open the log of a backup."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def read_log(log: sqlite3.Connection, position: int) -> Iterator[LogEntry]:
    """Yield the entries after a position, in order."""
    query = "SELECT entry, at, row, checksum FROM change_log WHERE entry > ? ORDER BY entry"
    for row in log.execute(query, (position,)):
        yield LogEntry(*row)


def append_log(collection: Collection, backup: Path) -> int:
    """Move what the collection has logged since into its backup, with new originals; return the transactions.

    The caller holds the writer lock. Raises InvalidInput if the collection does not continue the backup, and
    CollectionDamaged if what was written cannot be read back.
    """
    if not (backup / DATABASE).is_file():
        raise InvalidInput(f"there is no backup in {backup}; make one with --log")
    with Collection(backup) as base, base._engine.connect() as connection:
        chain = metadata.find_value(connection, change_log.CHAIN)
        position = int(metadata.find_value(connection, change_log.POSITION) or 0)
        if change_log.has_lost_manifest(connection, backup):
            raise CollectionDamaged(
                f"the manifest {collection_folder.MANIFEST_NAME} of {backup} is missing; make a new backup with --log"
            )
    with collection._engine.connect() as connection:
        if chain is None or metadata.find_value(connection, change_log.CHAIN) != chain:
            raise InvalidInput(
                f"the log does not continue {backup}: another backup was made with --log, a patient was erased, or "
                "damage repaired; make a new backup with --log"
            )
        if schema_log.name in changed_history(connection):
            raise CollectionDamaged("the log of changes is damaged; make a new backup with --log")
        if collection_folder.changed_files(backup, (LOG_FILE,)):  # what it had is in the collection no more
            raise CollectionDamaged(
                f"the log {LOG_FILE} of {backup} is missing or damaged; make a new backup with --log"
            )
        with raise_when_full(backup):  # originals first: an entry in the log must find its own
            collection_folder.update_sums(backup, leave_out=(LOG_FILE,))
            copied = _copy_originals(collection.folder / originals.FOLDER, backup / originals.FOLDER)
            transactions, last = _append_entries(connection, backup, position)
            names = (LOG_FILE, *(f"{originals.FOLDER}/{name}" for name in copied))
            collection_folder.update_sums(backup, written=names)
    with collection._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM change_log WHERE entry <= ?", (last,))
        originals.sweep_originals(connection, collection.folder)
    return transactions


def log_problems(backup: Path) -> list[str]:
    """Read the whole log of a backup, and compare each entry with its checksum; return the problems."""
    problem = f"the log {LOG_FILE} of {backup} is damaged; restore without what came after the backup, or use another"
    try:
        with closing(open_log(backup / LOG_FILE)) as log:
            report = log.execute("PRAGMA integrity_check(1)").fetchone()[0]
            return [] if report == "ok" and all(entry.is_sound() for entry in read_log(log, 0)) else [problem]
    except (*DAMAGE, OSError):
        return [problem]


def _append_entries(connection: Connection, backup: Path, position: int) -> tuple[int, int]:
    """Copy entries into the log and read them back; return the number of transactions and the last entry."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    path = backup / LOG_FILE
    if not path.exists() or not path.stat().st_size:  # a full disk left an empty one in earlier versions
        _create_log(path)
    with closing(open_log(path)) as log:
        log.execute(APPENDED)  # which logs of an earlier version lack
        position = max(position, log.execute("SELECT max(entry) FROM change_log").fetchone()[0] or 0)
        query = "SELECT entry, at, row FROM change_log WHERE entry > ? ORDER BY entry"
        rows = connection.execution_options(yield_per=4096).exec_driver_sql(query, (position,))
        log.execute("BEGIN")
        expected, transactions, last = position + 1, 0, position
        for row in rows:
            if row.entry != expected:
                break
            values = (row.entry, row.at, row.row, entry_checksum(row.entry, row.at, row.row))
            log.execute("INSERT INTO change_log VALUES (?, ?, ?, ?)", values)
            expected, last = expected + 1, row.entry
            transactions += row.at is not None
        if last != change_log.last_entry(connection):
            log.execute("ROLLBACK")
            raise CollectionDamaged(f"entry {expected} of the log is missing; make a new backup with --log")
        log.execute("INSERT INTO appended VALUES (?)", (now,))
        log.execute("COMMIT")
        if sum(entry.is_sound() for entry in read_log(log, position)) != last - position:
            raise CollectionDamaged(f"{backup / LOG_FILE} cannot be read back; make a new backup with --log")
    sync_folder(backup)
    return transactions, last


def _create_log(path: Path) -> None:
    """Create a log under another name first, so that there is none without its tables."""
    partial = path.with_name(path.name + SUFFIX)
    partial.unlink(missing_ok=True)
    create_private_file(partial)
    with closing(open_log(partial)) as log:
        log.execute(TABLE)
        log.execute(APPENDED)
    partial.replace(path)
    sync_folder(path.parent)


def _copy_originals(source: Path, target: Path) -> list[str]:
    """Copy the originals that the backup does not have yet; return their names."""
    copied: list[str] = []
    if not source.is_dir():
        return copied
    make_folder(target, exist_ok=True)
    for path in source.iterdir():
        if path.suffix != SUFFIX and not (target / path.name).exists():
            with suppress(FileNotFoundError):  # deleted meanwhile
                copy_file(path, target / path.name)
                copied.append(path.name)
    sync_folder(target)
    return copied
