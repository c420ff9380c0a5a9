"""Restore a backup, as of any moment that its log covers, or open the last good copy of a damaged collection."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, text

from cbir.errors import CbirError, CollectionBusy, CollectionDamaged, InvalidInput, NotFound
from cbir.store.base import collection_folder, metadata
from cbir.store.base.collection_folder import (
    create_private_file,
    require_readable,
    restrict_files,
    writer_lock,
)
from cbir.store.base.damage import (
    find_copy,
    raise_when_damaged,
    raise_when_full,
    restore_advice,
    time_of_copy,
)
from cbir.store.base.schema import COPIES, DATABASE, SECRET
from cbir.store.base.statements import is_postgresql
from cbir.store.base.stored_models import MODEL_FOLDER, SEVERITY_FOLDER, copy_models
from cbir.store.collection import Collection
from cbir.store.collection_address import resolve_alias
from cbir.store.records import originals
from cbir.store.records.originals import copy_originals
from cbir.store.records.patient_key import KEY_CHECK
from cbir.store.safety import change_log, last_good
from cbir.store.safety.database_files import require_sound_log
from cbir.store.snapshot.stored_snapshot import read_snapshot_info
from cbir.store.upkeep.backup_log import LOG_FILE, LogEntry, open_log, read_log
from cbir.store.upkeep.verify import verify_collection
from cbir.system.files import OWNER_FOLDER, rename_durably
from cbir.system.ownership import make_folder

FILES = (
    originals.FOLDER,
    MODEL_FOLDER,
    SEVERITY_FOLDER,
)  # restored with a last good copy, which lies beside them

Moment = int | datetime  # number of a change in the history, or a time with its zone


@dataclass(frozen=True)
class Restored:
    """Result of `restore_backup`.

    change: the last one in the history. transactions: replayed from the log. missing_originals: images of a last good
    copy whose original is lost or damaged.
    """

    images: int
    change: int
    transactions: int
    missing_originals: int


def parse_moment(text: str) -> Moment:
    """Read the number of a change, or a time in ISO 8601, which is UTC unless it names its zone."""
    is_number = text.isascii() and text.isdigit()
    try:
        moment = datetime.fromisoformat(text)
        if is_number:
            raise InvalidInput(f"{text} is a change or a date; write the date {moment.date()}")
    except ValueError:
        if is_number:
            return int(text)
        raise InvalidInput(
            f"{text} is neither the number of a change nor a time such as 2030-01-31T12:00:00"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def restore_backup(
    backup: Path, folder: Path, at: Moment | None = None, without_manifest: bool = False
) -> Restored:
    """Make a collection from a backup: verified, with a snapshot, in a new folder.

    Parameters
    ----------
    backup : Path
        Folder of the backup.
    folder : Path
        New folder of the collection.
    at : int or datetime, optional
        The state after this change, or at this time; the latest by default.
    without_manifest : bool
        Restore also a backup whose manifest is lost; only rows and originals have checksums then.

    Raises
    ------
    InvalidInput
        If `folder` exists, or backup and log do not cover the moment.
    CollectionDamaged
        If backup or log do not match their checksums; nothing is restored then.
    """
    if folder.exists():
        raise InvalidInput(f"{folder} exists; name a new folder to restore to")
    from_copy = backup.name in COPIES
    _require_intact(backup, from_copy)
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with raise_when_full(folder):
            _copy_backup(backup, partial)
            with Collection(partial) as collection:
                if not without_manifest:
                    _require_manifest(collection, backup, from_copy)
                transactions = _replay_log(collection, backup / LOG_FILE, at)
                missing = _drop_lost_originals(collection) if from_copy else 0
                with collection.writer() as writer:
                    writer.compact()
                if problems := verify_collection(collection):
                    raise CollectionDamaged(f"{backup} is damaged: {'; '.join(problems)}")
                newest = collection.history(limit=1)
                change = newest[0].change if newest else 0
                restored = Restored(len(collection), change, transactions, missing)
            rename_durably(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return restored


def _require_intact(backup: Path, from_copy: bool) -> None:
    """Raise NotFound if there is no backup, CollectionDamaged if a file is not what its manifest says.

    Of a last good copy, the database and the key are needed; all else is made again.
    """
    read = (backup, *(backup.parent / name for name in FILES)) if from_copy else (backup,)
    for folder in read:
        require_readable(folder)
    try:
        if not (backup / DATABASE).stat().st_size:
            raise CollectionDamaged(f"the database {DATABASE} of {backup} is empty; use another backup")
    except OSError:
        if (backup / SECRET).exists():
            raise CollectionDamaged(
                f"the database {DATABASE} of {backup} is missing; use another backup"
            ) from None
        raise NotFound(f"there is no backup in {backup}") from None
    if changed := collection_folder.changed_files(backup, (DATABASE, SECRET) if from_copy else None):
        raise CollectionDamaged(
            f"{backup} is damaged: missing or changed since it was written: {', '.join(changed)}; use another backup"
        )


def _require_manifest(copied: Collection, backup: Path, from_copy: bool) -> None:
    """Raise CollectionDamaged if a backup, or last good copy, was made with a manifest and has none."""
    if (backup / collection_folder.MANIFEST_NAME).exists():
        return
    # Last good copies have had a manifest ever since they have a hash of the key.
    if copied._read(metadata.find_value, KEY_CHECK if from_copy else change_log.MANIFEST):
        raise CollectionDamaged(
            f"the manifest {collection_folder.MANIFEST_NAME} of {backup} is missing; use another backup, or "
            "`--without-manifest` if there is none"
        )


def _copy_backup(backup: Path, partial: Path) -> None:
    """Copy what cannot be rebuilt; a last good copy has its originals and models in the folder that it lies in."""
    with_files = backup.parent if backup.name in COPIES else backup
    make_folder(partial.parent, 0o777, parents=True, exist_ok=True)
    partial.mkdir(mode=OWNER_FOLDER)  # root's, so that no one else can put anything into it
    copy_originals(
        with_files, partial
    )  # before and after the database, in case that a collection is restored
    with raise_when_damaged(backup):
        _copy_database(backup, partial)
    copy_originals(with_files, partial)
    copy_models(with_files, partial)
    if (backup / SECRET).is_file():
        shutil.copy2(backup / SECRET, partial / SECRET)
    restrict_files(partial)


def _copy_database(backup: Path, partial: Path) -> None:
    """Copy a database as of one moment, also if it is in use, or in a folder that cannot be written to."""
    require_sound_log(backup)
    address = (backup / DATABASE).absolute().as_uri()
    if not os.access(backup, os.W_OK) and not (backup / f"{DATABASE}-wal").exists():
        address += "?immutable=1"  # else SQLite creates files beside it
    create_private_file(partial / DATABASE)
    with (
        closing(sqlite3.connect(address, uri=True)) as source,
        closing(sqlite3.connect(partial / DATABASE)) as target,
    ):
        source.backup(target)


def _drop_lost_originals(collection: Collection) -> int:
    """Accept that originals are lost or damaged, rather than lose all; return the number of their images."""
    for path in (collection.folder / originals.FOLDER).glob("*"):
        if not originals.is_intact(path):
            path.unlink()
    with collection._engine.begin() as connection:
        return originals.forget_missing(connection, collection.folder)


def _replay_log(collection: Collection, log: Path, at: Moment | None) -> int:
    """Replay the transactions up to a moment; return their number."""
    with collection._engine.connect() as connection:
        _require_covered(connection, log, at)
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
        last = _last_change(connection)
        if isinstance(at, int) and at > last:
            raise InvalidInput(
                f"the backup and its log end with change {last}; leave out --at for the latest state"
            )
        change_log.stop_log(connection)
        connection.exec_driver_sql("DELETE FROM meta WHERE key = 'snapshot'")
        connection.exec_driver_sql("DELETE FROM tombstones")
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        connection.exec_driver_sql("BEGIN")
    return count


def _last_change(connection: Connection) -> int:
    """Return the number of the last change, also if it was deleted from the history."""
    query = "SELECT seq FROM sqlite_sequence WHERE name = 'changes'"
    return connection.exec_driver_sql(query).scalar() or 0


def _require_covered(connection: Connection, log: Path, at: Moment | None) -> None:
    """Raise InvalidInput for a moment before the backup, or a time after what its log covers."""
    if at is None:
        return
    change, made_at = _last_change(connection), metadata.find_value(connection, change_log.MADE_AT)
    if made_at is None:
        raise InvalidInput(f"{log.parent} is no backup, so only its latest state can be restored")
    if at < change if isinstance(at, int) else at < datetime.fromisoformat(made_at):
        raise InvalidInput(
            f"the backup is of change {change}, {made_at}; earlier states need an earlier backup"
        )
    end = _covered_until(log) or made_at
    if isinstance(at, datetime) and at > datetime.fromisoformat(end):
        raise InvalidInput(f"the backup and its log end at {end}; leave out --at for the latest state")


def _covered_until(log: Path) -> str | None:
    """Return the time of the last append; None if there was none."""
    if not log.is_file():
        return None
    with raise_when_damaged(log.parent), closing(open_log(log)) as opened:
        return cast(str | None, opened.execute("SELECT max(at) FROM appended").fetchone()[0])


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
    if isinstance(at, int) and _last_change(connection) > at:
        connection.exec_driver_sql("ROLLBACK TO logged")
        return False
    connection.exec_driver_sql("RELEASE logged")
    return True


def open_or_fallback(folder: Path) -> Collection:
    """Open the collection in `folder`, or its last good copy if the database is damaged.

    The copy has `fallback_for` set and cannot be written to. Without a usable copy this raises what `Collection`
    raises. Reads the whole database once. `folder` may be an alias.
    """
    folder = resolve_alias(folder)
    try:
        return _open_checked(folder)
    except CollectionDamaged as damage:
        with suppress(OSError, CollectionBusy), writer_lock(folder):  # another may be replacing it
            last_good.finish_replacement(folder)
        copy = find_copy(folder)  # a read-only folder keeps one whose replacement was interrupted
        if copy is None:
            raise
        try:
            collection = _open_checked(copy)
        except CbirError:
            raise damage from None
        collection.fallback_for = (
            f"{damage}. Searching in the last good copy, of {time_of_copy(copy)}: images added since are missing, "
            "and nothing can be changed until the collection is restored"
        )
        return collection


def _open_checked(folder: Path) -> Collection:
    collection = Collection(folder)
    try:
        with raise_when_damaged(folder), collection._engine.connect() as connection:
            report = ["ok"]
            if not is_postgresql(connection):  # which checks every page that it reads
                report = list(connection.scalars(text("PRAGMA quick_check(1)")))
            metadata.read_statistics(connection)
            read_snapshot_info(connection, folder)
        if report != ["ok"]:
            raise CollectionDamaged(
                f"the database of {folder} is damaged ({' '.join(report)[:200]}); {restore_advice(folder)}"
            )
    except CbirError:
        collection.close()
        raise
    return collection
