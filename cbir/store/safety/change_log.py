"""Log of row changes, which continues a backup so that any later state can be restored.

While a collection is logged, triggers write each changed row as JSON into the table `change_log`, within the
transaction of the change; `schema.connect` adds an entry with the time before each commit. `backup_log.append_log`
moves the entries into the backup.
"""

import json
import secrets
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, LargeBinary, Table, Text

from cbir.errors import InvalidInput
from cbir.store.base import collection_folder, metadata
from cbir.store.base.damage import keep_history
from cbir.store.base.schema import (
    changed_images,
    changes,
    create_quarantine,
    erased,
    forgotten,
    has_quarantine,
    images,
    instance_copies,
    labels,
    meta,
    original_files,
    quarantine,
    thumbnails,
    vectors,
)
from cbir.store.base.statements import is_postgresql

CHAIN = "change_log"  # key in `meta`: name of the log that a collection and its backup have in common
POSITION = "change_log_position"  # key in `meta` of a backup: last entry that it contains
MADE_AT = "backup_at"  # key in `meta` of a backup: time when it was made, UTC, ISO 8601
MANIFEST = "manifest"  # key in `meta` of a backup: the file with its hashes, which earlier backups have not
OF_BACKUP = (CHAIN, POSITION, MADE_AT, MANIFEST)
LOGGED = (
    meta,
    images,
    vectors,
    labels,
    thumbnails,
    forgotten,
    erased,
    changes,
    changed_images,
    instance_copies,
    original_files,
)
BY_NAME = {table.name: table for table in (*LOGGED, quarantine)}
NOT_LOGGED = f"'snapshot', '{CHAIN}', '{POSITION}', '{MADE_AT}'"  # keys of `meta`


def ensure_log(connection: Connection) -> bool:
    """Log all further changes, unless a log is kept already; return whether it was started."""
    if is_logged(connection):
        return False
    start_log(connection)
    return True


def is_logged(connection: Connection) -> bool:
    """Return whether the changes of a collection are logged, for a backup."""
    return not is_postgresql(connection) and metadata.find_value(connection, CHAIN) is not None


def start_log(connection: Connection) -> None:
    """Log all further changes, under a new name."""
    stop_log(connection)
    metadata.set_value(connection, CHAIN, secrets.token_hex(16))
    for table in LOGGED:
        _log_table(connection, table)
    if has_quarantine(connection):
        _log_table(connection, quarantine)


def ensure_quarantine(connection: Connection) -> None:
    """Make the table of quarantined images, unless it is there, and log its changes if those of others are logged."""
    if not has_quarantine(connection):
        create_quarantine(connection)
        if not is_postgresql(connection):
            keep_history(connection)
        if is_logged(connection):
            _log_table(connection, quarantine)


def stop_log(connection: Connection) -> bool:
    """Log no more, and delete what was logged: it no longer continues any backup. Return whether there was a log."""
    if is_postgresql(connection):
        return False
    for table in (*LOGGED, quarantine):
        for event in ("INSERT", "UPDATE", "DELETE"):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {_trigger(table, event)}")
    connection.exec_driver_sql("DELETE FROM change_log")
    query = "DELETE FROM meta WHERE key IN (?, ?, ?, ?)"
    return connection.exec_driver_sql(query, OF_BACKUP).rowcount > 0


def seal_copy(connection: Connection, made_at: str) -> None:
    """Turn the copy of a collection, made at this time, into a backup, which the log continues if there is one."""
    chain = metadata.find_value(connection, CHAIN)
    position = last_entry(connection)
    stop_log(connection)
    metadata.set_value(connection, MADE_AT, made_at)
    metadata.set_value(connection, MANIFEST, collection_folder.MANIFEST_NAME)
    if chain:
        metadata.set_value(connection, CHAIN, chain)
        metadata.set_value(connection, POSITION, str(position))


def has_lost_manifest(connection: Connection, backup: Path) -> bool:
    """Return whether a backup has no manifest although it was made with one."""
    name = metadata.find_value(connection, MANIFEST)
    return name is not None and not (backup / name).exists()


def last_entry(connection: Connection) -> int:
    """Return the number of the last entry, even if it was deleted."""
    query = "SELECT seq FROM sqlite_sequence WHERE name = 'change_log'"
    return connection.exec_driver_sql(query).scalar() or 0


def take_over(connection: Connection, copy: Connection) -> None:
    """Give the log a new name, under which it continues the sealed `copy`, not an earlier backup.

    Raises InvalidInput if it lacks changes since the copy was made.
    """
    chain, position = metadata.find_value(copy, CHAIN), int(metadata.required_value(copy, POSITION))
    first = connection.exec_driver_sql(
        "SELECT min(entry) FROM change_log WHERE entry > ?", (position,)
    ).scalar()
    complete = first == position + 1 or (first is None and last_entry(connection) == position)
    if not complete or metadata.find_value(connection, CHAIN) != chain:
        raise InvalidInput(
            "the log ended, or was appended elsewhere, while the backup was made; make it again"
        )
    name = secrets.token_hex(16)
    for database in (connection, copy):
        metadata.set_value(database, CHAIN, name)
    connection.exec_driver_sql("DELETE FROM change_log WHERE entry <= ?", (position,))


def replay(connection: Connection, logged: str) -> None:
    """Make one logged change of a row; only rows of the known tables can be written."""
    name, event, values = json.loads(logged)
    table = BY_NAME[name]
    if table is quarantine:
        create_quarantine(connection)
    columns = list(table.primary_key) if event == "DELETE" else list(table.c)
    parameters = tuple(_decode(column, value) for column, value in zip(columns, values, strict=True))
    names = [column.name for column in columns]
    if event == "DELETE":
        same = " AND ".join(f"{name} = ?" for name in names)
        connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE {same}", parameters)
    else:
        marks = ", ".join("?" * len(names))
        insert = f"INSERT OR REPLACE INTO {table.name} ({', '.join(names)}) VALUES ({marks})"
        connection.exec_driver_sql(insert, parameters)


def logged_text(text: str) -> str:
    """Return a text as it stands in the log."""
    return text.encode().hex().upper()


def _decode(column: Column[Any], value: str | int | None) -> str | bytes | int | None:
    if value is None or isinstance(value, int):
        return value
    content = bytes.fromhex(value)
    return content.decode() if isinstance(column.type, Text) else content


def logging_triggers() -> dict[str, str]:
    """Return the statements that create all triggers, by the name of the trigger."""
    return {name: sql for table in (*LOGGED, quarantine) for name, sql in _triggers_of(table).items()}


def _log_table(connection: Connection, table: Table) -> None:
    for sql in _triggers_of(table).values():
        connection.exec_driver_sql(sql)


def _triggers_of(table: Table) -> dict[str, str]:
    triggers = {}
    for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
        exempt = f"WHEN {row}.key NOT IN ({NOT_LOGGED})" if table is meta else ""
        triggers[_trigger(table, event)] = (
            f"CREATE TRIGGER {_trigger(table, event)} AFTER {event} ON {table.name} {exempt} "
            f"BEGIN INSERT INTO change_log (row) VALUES ({_logged_row(table, event, row)}); END"
        )
    return triggers


def _trigger(table: Table, event: str) -> str:
    return f"log_{table.name}_{event.lower()}"


def _logged_row(table: Table, event: str, row: str) -> str:
    """Return the SQL expression of a row as JSON; text and bytes in hexadecimal digits."""
    columns = table.primary_key if event == "DELETE" else table.c
    values = ", ".join(
        f"CASE WHEN {row}.{column.name} IS NULL THEN NULL ELSE hex({row}.{column.name}) END"
        if isinstance(column.type, Text | LargeBinary)
        else f"{row}.{column.name}"
        for column in columns
    )
    return f"json_array('{table.name}', '{event}', json_array({values}))"
