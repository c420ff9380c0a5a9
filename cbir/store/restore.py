"""Restore a backup, as of any moment that its log covers."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from cbir.atomic import rename_durably
from cbir.errors import CollectionDamaged, InvalidInput, NotFound
from cbir.store import change_log, metadata
from cbir.store.backup_log import LOG_FILE, LogEntry, open_log, read_log
from cbir.store.collection import Collection
from cbir.store.damage import raise_when_damaged
from cbir.store.disk_full import raise_when_full
from cbir.store.permissions import restrict_files
from cbir.store.schema import DATABASE
from cbir.store.verify import verify_collection

Moment = int | datetime  # number of a change in the history, or a time with its zone


@dataclass(frozen=True)
class Restored:
    """Result of `restore_backup`. change: the last one in the history. transactions: replayed from the log."""

    images: int
    change: int
    transactions: int


def parse_moment(text: str) -> Moment:
    """Read the number of a change, or a time in ISO 8601, which is UTC unless it names its zone."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text} is neither the number of a change nor a time such as 2030-01-31T12:00:00"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def restore_backup(backup: Path, folder: Path, at: Moment | None = None) -> Restored:
    """Make a collection from a backup: verified, with a snapshot, in a new folder.

    Parameters
    ----------
    backup : Path
        Folder of the backup.
    folder : Path
        New folder of the collection.
    at : int or datetime, optional
        The state after this change, or at this time; the latest by default.

    Raises
    ------
    InvalidInput
        If `folder` exists, or the backup is of a later moment.
    CollectionDamaged
        If backup or log do not match their checksums; nothing is restored then.
    """
    if folder.exists():
        raise InvalidInput(f"{folder} exists; name a new folder to restore to")
    if not (backup / DATABASE).is_file():
        raise NotFound(f"there is no backup in {backup}")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with raise_when_full(folder):
            shutil.copytree(backup, partial, ignore=shutil.ignore_patterns(f"{LOG_FILE}*"))
            restrict_files(partial)
            with Collection(partial) as collection:
                transactions = _replay_log(collection, backup / LOG_FILE, at)
                with collection.writer() as writer:
                    writer.compact()
                if problems := verify_collection(collection):
                    raise CollectionDamaged(f"{backup} is damaged: {'; '.join(problems)}")
                newest = collection.history(limit=1)
                restored = Restored(len(collection), newest[0].change if newest else 0, transactions)
            rename_durably(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return restored


def _replay_log(collection: Collection, log: Path, at: Moment | None) -> int:
    """Replay the transactions up to a moment; return their number."""
    with collection._engine.connect() as connection:
        _require_earlier(connection, at)
        position = int(metadata.find_value(connection, change_log.POSITION) or 0)
        connection.exec_driver_sql("ROLLBACK")
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")  # the log has what follows from a deletion
        connection.exec_driver_sql("BEGIN")
        count = 0
        if log.is_file():
            with raise_when_damaged(log.parent), closing(open_log(log)) as opened:
                for entries in _transactions(opened, position):
                    if not _replay(connection, entries, at):
                        break
                    count += 1
        change_log.stop_log(connection)
        connection.exec_driver_sql("DELETE FROM meta WHERE key = 'snapshot'")
        connection.exec_driver_sql("DELETE FROM tombstones")
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        connection.exec_driver_sql("BEGIN")
    return count


def _last_change(connection: Connection) -> tuple[int, str]:
    row = connection.exec_driver_sql("SELECT change, at FROM changes ORDER BY change DESC LIMIT 1").first()
    return (row[0], row[1]) if row else (0, "")


def _require_earlier(connection: Connection, at: Moment | None) -> None:
    change, time = _last_change(connection)
    later = isinstance(at, int) and at < change
    if isinstance(at, datetime) and time:
        later = at < datetime.fromisoformat(time)
    if later:
        raise InvalidInput(f"the backup is of change {change}, {time}; earlier states need an earlier backup")


def _transactions(log: sqlite3.Connection, position: int) -> Iterator[list[LogEntry]]:
    """Yield the entries of each complete transaction after a position; raises CollectionDamaged for a gap."""
    entries: list[LogEntry] = []
    for entry in read_log(log, position):
        if entry.entry != position + 1 or not entry.is_sound():
            raise CollectionDamaged(f"entry {position + 1} of {LOG_FILE} is missing or damaged")
        position = entry.entry
        entries.append(entry)
        if entry.at is not None:
            yield entries
            entries = []


def _replay(connection: Connection, entries: list[LogEntry], at: Moment | None) -> bool:
    """Replay one transaction, unless it is later than a moment; return whether it was replayed."""
    ended = entries[-1].at
    if isinstance(at, datetime) and ended is not None and datetime.fromisoformat(ended) > at:
        return False
    connection.exec_driver_sql("SAVEPOINT logged")
    for entry in entries:
        if entry.row is not None:
            change_log.replay(connection, entry.row)
    if isinstance(at, int) and _last_change(connection)[0] > at:
        connection.exec_driver_sql("ROLLBACK TO logged")
        return False
    connection.exec_driver_sql("RELEASE logged")
    return True
