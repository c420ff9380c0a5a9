"""Sums of the rows' checksums, one for each checked table, which show rows that a damaged file has lost.

Triggers keep them, within the transaction of the change. The tables of a service's state have them too.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, Table

from cbir.store.base.schema import CHECKED, HISTORY, has_quarantine, quarantine
from cbir.store.base.statements import checksum_sql, is_postgresql, other_type_sql, restored_types_sql


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
    """Store the sum of the table `name`."""
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
