"""Damage of a collection: errors that name what restores it, and sums of checksums that show lost rows.

Triggers keep the sums, one for each checked table, within the transaction of the change. The tables of a service's
state have them too.
"""

import errno
import os
import shlex
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from cbir.errors import CbirError, CollectionDamaged, InvalidInput, StorageFull, access_denied
from cbir.store.base.collection_folder import denied_database, is_read_only
from cbir.store.base.schema import CHECKED, COPIES, DATABASE, HISTORY, has_quarantine, quarantine
from cbir.store.base.statements import checksum_sql, is_postgresql, other_type_sql, restored_types_sql

REPAIR = "`cbir collection verify --repair` restores what a sound copy holds"
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# SQLite says FULL for ENOSPC alone; a quota or a limit of file sizes is a failed write to it.
SQLITE_FULL = {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_FSYNC"}
# Damaged text does not decode, damaged JSON does not parse, and rows of a damaged schema lack columns.
DAMAGE = (SQLAlchemyError, sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, OverflowError)


def restore_advice(folder: Path) -> str:
    """Return the command that restores the collection in `folder`: from its last good copy, or from a backup."""
    if folder.name in COPIES:
        return "restore a backup"
    if folder.name in ("", ".."):  # the working folder, or one above it
        folder = Path(os.path.abspath(folder))
    aside = _free_name(folder)
    move = f"mv {shlex.quote(str(folder))} {shlex.quote(str(aside))}"
    copy = find_copy(folder)
    if copy is None:
        return f"restore a backup: `{move} && cbir collection restore BACKUP {shlex.quote(str(folder))}`"
    source = shlex.quote(str(aside / copy.name))
    return (
        f"restore a newer backup, or the last good copy, of {time_of_copy(copy)}: "
        f"`{move} && cbir collection restore {source} {shlex.quote(str(folder))}`"
    )


def find_copy(folder: Path) -> Path | None:
    """Return the last good copy of the collection in `folder`, also after a replacement that was interrupted."""
    paths = (folder / name for name in COPIES)
    return next((path for path in paths if _has_content(path / DATABASE)), None)


def time_of_copy(copy: Path) -> str:
    """Return when a last good copy was made, by its snapshot, which never changes."""
    paths = [path for path in (copy / "snapshots").glob("*") if path.is_file()] or [copy]
    newest = max(path.stat().st_mtime for path in paths)
    return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(newest))} UTC"


def _free_name(folder: Path) -> Path:
    """Return a name beside `folder` that nothing has: `mv` would move into a folder of that name."""
    names = (f"{folder.name}-damaged{number if number > 1 else ''}" for number in count(1))
    return next(path for path in map(folder.with_name, names) if not os.path.lexists(path))


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


@contextmanager
def raise_when_full(folder: Path) -> Iterator[None]:
    """Raise StorageFull if the block fails because the disk of `folder` is full."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, OSError) as error:
        if not is_full(error):
            raise
        raise StorageFull(
            f"the disk of {folder} is full; no data is damaged or lost: free some space and repeat the step"
        ) from error


def is_full(error: BaseException) -> bool:
    """Return whether an error says that a disk is full."""
    if isinstance(error, OSError):
        return error.errno in FULL
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlite_errorname", None) in SQLITE_FULL


def is_damage(error: Exception) -> bool:
    """Return whether a damaged database may have caused an error; errors of cbir itself never count."""
    return isinstance(error, DAMAGE) and not isinstance(error, CbirError)


def describe_damage_of(folder: Path, error: Exception) -> str:
    """Describe what SQLite says of the database in `folder`, and what restores it."""
    reason = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    if not isinstance(error, SQLAlchemyError | sqlite3.Error) or not reason.isprintable():
        reason = "its content is not what was written"  # other texts may quote it
    return f"the database {DATABASE} of {folder} is damaged ({reason}); {restore_advice(folder)}"


@contextmanager
def raise_when_damaged(folder: Path) -> Iterator[None]:
    """Raise CollectionDamaged if the block cannot read the database.

    AccessDenied if this process may not, and InvalidInput for a read-only folder with a log.
    """
    try:
        yield
    except (*DAMAGE, OSError) as error:
        if isinstance(error, PermissionError):
            raise access_denied(error, folder) from error
        cause = error.orig if isinstance(error, DBAPIError) else error
        if denied := denied_database(folder / DATABASE, cause):
            raise denied from error
        if is_read_only(folder) and "unable to open" in str(error):
            raise InvalidInput(
                f"{folder} is not writable, and has a log ({DATABASE}-wal) that can only be read with write access; "
                "copy it to a folder that is writable"
            ) from error
        if isinstance(error, OSError):
            raise
        raise CollectionDamaged(describe_damage_of(folder, error)) from error


def start_totals(connection: Connection) -> None:
    """Store the sums of all tables, and keep them from now on."""
    for table in CHECKED:
        _keep_total(connection, table)
    store_totals(connection)
    keep_history(connection)


def keep_history(connection: Connection) -> None:
    """Store the sums of the history, and keep them from now on, unless they are kept; old collections have none."""
    keep_totals(connection, _history(connection))


def keep_totals(connection: Connection, tables: Iterable[Table]) -> None:
    """Store the sums of `tables`, and keep them from now on, unless they are kept."""
    summed = _kept_tables(connection)
    for table in tables:
        if table.name not in summed:
            _keep_total(connection, table)
            store_total(connection, table.name, current_total(connection, table))


def _kept_tables(connection: Connection) -> set[str]:
    """Return the names of the tables that have a sum, or triggers that keep one which is lost."""
    triggers = (
        "SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'total\\_%' ESCAPE '\\'"
    )
    return {*read_totals(connection), *connection.exec_driver_sql(triggers).scalars()}


def changed_history(connection: Connection) -> list[str]:
    """Return the tables of the history whose rows do not make up their sum."""
    summed = _kept_tables(connection)
    return changed_tables(connection, [table for table in _history(connection) if table.name in summed])


def changed_tables(connection: Connection, tables: Iterable[Table]) -> list[str]:
    """Return the names of the tables that have no sum, or whose rows do not make it up."""
    totals = read_totals(connection)
    return [table.name for table in tables if totals.get(table.name) != current_total(connection, table)]


def has_other_types(connection: Connection, table: Table) -> bool:
    """Return whether a SQLite table has values that have not the type of their column."""
    query = f"SELECT EXISTS (SELECT 1 FROM {table.name} NOT INDEXED WHERE {other_type_sql(table)})"
    return bool(connection.exec_driver_sql(query).scalar())


def _keep_total(connection: Connection, table: Table) -> None:
    for sql in total_triggers(table).values():
        connection.exec_driver_sql(sql)


def restore_types(connection: Connection, table: Table) -> None:
    """Store values as the type of their column again; see `other_type_sql`."""
    for statement in restored_types_sql(table):
        connection.exec_driver_sql(statement)


def total_triggers(table: Table) -> dict[str, str]:
    """Return the statements that create the triggers of a table, by the name of the trigger."""
    new, old = _checksum(table, "NEW."), _checksum(table, "OLD.")
    changes = (("INSERT", f"+ {new}"), ("DELETE", f"- {old}"), ("UPDATE", f"- {old} + {new}"))
    return {
        f"total_{table.name}_{event.lower()}": (
            f"CREATE TRIGGER total_{table.name}_{event.lower()} AFTER {event} ON {table.name} "
            f"BEGIN UPDATE row_totals SET total = total {change} WHERE name = '{table.name}'; END"
        )
        for event, change in changes
    }


def _checksum(table: Table, row: str = "") -> str:
    return f"ifnull({row}checksum, 0)" if table in CHECKED else checksum_sql(table, row)


def _history(connection: Connection) -> tuple[Table, ...]:
    """Return the tables whose rows have no checksum of all their values."""
    return (*HISTORY, quarantine) if has_quarantine(connection) else HISTORY


def checked_and_history(connection: Connection) -> tuple[Table, ...]:
    """Return all tables whose rows make up a sum."""
    return (*CHECKED, *_history(connection))


def stop_totals(connection: Connection) -> None:
    """Keep the sums no longer; with triggers, SQLite does not empty a damaged table wholly."""
    for table in (*HISTORY, quarantine):
        connection.exec_driver_sql("DELETE FROM row_totals WHERE name = ?", (table.name,))
    for table in (*CHECKED, *HISTORY, quarantine):
        for name in total_triggers(table):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")


def store_totals(connection: Connection, totals: Mapping[str, int] | None = None) -> None:
    """Store these sums of checked tables, by default those of the rows as they are; PostgreSQL has none."""
    if is_postgresql(connection):
        return
    for table in CHECKED:
        total = totals.get(table.name) if totals is not None else current_total(connection, table)
        if total is not None:
            store_total(connection, table.name, total)


def store_total(connection: Connection, name: str, total: int) -> None:
    """Store the sum `total` of the table `name`, by `connection`."""
    query = "INSERT OR REPLACE INTO row_totals (name, total) VALUES (?, ?)"
    connection.exec_driver_sql(query, (name, total))


def read_totals(connection: Connection) -> dict[str, int]:
    """Return the stored sums, by the name of the table."""
    rows = connection.exec_driver_sql("SELECT name, total FROM row_totals").all()
    return {row.name: row.total for row in rows}


def current_total(connection: Connection, table: Table) -> int:
    """Return the sum of a table's checksums as they are."""
    query = f"SELECT sum({_checksum(table)}) FROM {table.name} NOT INDEXED"
    return int(connection.exec_driver_sql(query).scalar() or 0)
