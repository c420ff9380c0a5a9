"""Sums that show damage of state.sqlite: of the rows of each table, and of the definitions of tables and triggers.

They are those of a collection's history, see `cbir.store.base.damage`: triggers keep them, within the
transaction of the change. PostgreSQL has checksums of its own.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import Column, Connection, MetaData, Table, Text, inspect

from cbir.store.base.damage import (
    changed_tables,
    current_total,
    has_other_types,
    keep_totals,
    read_totals,
    restore_types,
    store_total,
    total_triggers,
)
from cbir.store.base.schema import row_totals

definitions = Table(
    "sqlite_master", MetaData(), *[Column(name, Text) for name in ("type", "name", "tbl_name", "sql")]
)
TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"


def damaged_tables(connection: Connection, tables: Iterable[Table]) -> list[str]:
    """Return the names of the tables whose rows are not what was written; that of `definitions` for theirs."""
    read = [definitions, *tables]
    changed = set(changed_tables(connection, read))
    return [table.name for table in read if table.name in changed or has_other_types(connection, table)]


def has_sound_definitions(connection: Connection) -> bool:
    """Return whether tables and triggers are defined as they were stored; True if they have no sum yet."""
    return not inspect(connection).has_table(row_totals.name) or not (
        changed_tables(connection, [definitions]) or has_other_types(connection, definitions)
    )


def keep_sums(connection: Connection, tables: Sequence[Table], sound: bool) -> None:
    """Store the sums of `tables`, and keep them from now on, unless they are kept.

    Parameters
    ----------
    connection : Connection
        In a transaction, in which tables may have been created or changed.
    tables : sequence of Table
        Tables that exist.
    sound : bool
        Whether the definitions were sound before that.
    """
    if not sound:  # the sums that are there show the damage
        return
    row_totals.create(connection, checkfirst=True)
    _drop_earlier(connection, tables)
    keep_totals(connection, tables)
    total = current_total(connection, definitions)
    if read_totals(connection).get(definitions.name) != total:
        store_total(connection, definitions.name, total)


def _drop_earlier(connection: Connection, tables: Iterable[Table]) -> None:
    """Drop sums and triggers of tables that had other columns."""
    defined = {row.name: row.sql for row in connection.exec_driver_sql(TRIGGERS)}
    for table in tables:
        expected = total_triggers(table)
        earlier = {name: defined[name] for name in expected if name in defined}
        if earlier and earlier != expected:
            for name in earlier:
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
            connection.exec_driver_sql("DELETE FROM row_totals WHERE name = ?", (table.name,))


def accept_rows(connection: Connection, tables: Sequence[Table]) -> list[str]:
    """Let the sums be those of the rows as they are; return the names of the tables whose sums differed."""
    names = set(damaged_tables(connection, tables))
    damaged = [table for table in tables if table.name in names]
    for table in damaged:
        restore_types(connection, table)
        store_total(connection, table.name, current_total(connection, table))
    return [table.name for table in damaged]
