"""Sums of the rows' checksums, one for each checked table, which show rows that a damaged file has lost.

Triggers keep them, within the transaction of the change.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, Table

from cbir.store.checksums import checksum_sql
from cbir.store.quarantine_table import has_quarantine, quarantine
from cbir.store.schema import CHECKED, HISTORY
from cbir.store.statements import is_postgresql


def start_totals(connection: Connection) -> None:
    """Store the sums of all tables, and keep them from now on."""
    for table in CHECKED:
        _keep_total(connection, table)
    store_totals(connection)
    keep_history(connection)


def keep_history(connection: Connection) -> None:
    """Store the sums of the history, and keep them from now on, unless they are kept; old collections have none."""
    totals = read_totals(connection)
    for table in _history(connection):
        if table.name not in totals:
            _keep_total(connection, table)
            _store_total(connection, table, current_total(connection, table))


def changed_history(connection: Connection) -> list[str]:
    """Return the tables of the history whose rows do not make up their sum."""
    totals = read_totals(connection)
    return [
        table.name
        for table in _history(connection)
        if table.name in totals and totals[table.name] != current_total(connection, table)
    ]


def _keep_total(connection: Connection, table: Table) -> None:
    new, old = _checksum(table, "NEW."), _checksum(table, "OLD.")
    for event, change in (("INSERT", f"+ {new}"), ("DELETE", f"- {old}"), ("UPDATE", f"- {old} + {new}")):
        connection.exec_driver_sql(
            f"CREATE TRIGGER total_{table.name}_{event.lower()} AFTER {event} ON {table.name} "
            f"BEGIN UPDATE row_totals SET total = total {change} WHERE name = '{table.name}'; END"
        )


def _checksum(table: Table, row: str = "") -> str:
    return f"ifnull({row}checksum, 0)" if table in CHECKED else checksum_sql(table, row)


def _history(connection: Connection) -> tuple[Table, ...]:
    """Return the tables whose rows have no checksum of all their values."""
    return (*HISTORY, quarantine) if has_quarantine(connection) else HISTORY


def stop_totals(connection: Connection) -> None:
    """Keep the sums no longer; with triggers, SQLite does not empty a damaged table wholly."""
    for table in (*HISTORY, quarantine):
        connection.exec_driver_sql("DELETE FROM row_totals WHERE name = ?", (table.name,))
    for table in (*CHECKED, *HISTORY, quarantine):
        for event in ("insert", "delete", "update"):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS total_{table.name}_{event}")


def store_totals(connection: Connection, totals: Mapping[str, int] | None = None) -> None:
    """Store these sums of checked tables, by default those of the rows as they are; PostgreSQL has none."""
    if is_postgresql(connection):
        return
    for table in CHECKED:
        total = totals.get(table.name) if totals is not None else current_total(connection, table)
        if total is not None:
            _store_total(connection, table, total)


def _store_total(connection: Connection, table: Table, total: int) -> None:
    query = "INSERT OR REPLACE INTO row_totals (name, total) VALUES (?, ?)"
    connection.exec_driver_sql(query, (table.name, total))


def read_totals(connection: Connection) -> dict[str, int]:
    """Return the stored sums, by the name of the table."""
    rows = connection.exec_driver_sql("SELECT name, total FROM row_totals").all()
    return {row.name: row.total for row in rows}


def current_total(connection: Connection, table: Table) -> int:
    """Return the sum of a table's checksums as they are."""
    query = f"SELECT sum({_checksum(table)}) FROM {table.name} NOT INDEXED"
    return int(connection.exec_driver_sql(query).scalar() or 0)
