"""Sums of the rows' checksums, one for each checked table, which show rows that a damaged file has lost.

Triggers keep them, within the transaction of the change.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, Table

from cbir.store.schema import CHECKED
from cbir.store.statements import is_postgresql


def start_totals(connection: Connection) -> None:
    """Store the sums of all tables, and keep them from now on."""
    for table in CHECKED:
        for event, change in (
            ("INSERT", "+ ifnull(NEW.checksum, 0)"),
            ("DELETE", "- ifnull(OLD.checksum, 0)"),
            ("UPDATE", "- ifnull(OLD.checksum, 0) + ifnull(NEW.checksum, 0)"),
        ):
            connection.exec_driver_sql(
                f"CREATE TRIGGER total_{table.name}_{event.lower()} AFTER {event} ON {table.name} "
                f"BEGIN UPDATE row_totals SET total = total {change} WHERE name = '{table.name}'; END"
            )
    store_totals(connection)


def stop_totals(connection: Connection) -> None:
    """Keep the sums no longer; with triggers, SQLite does not empty a damaged table wholly."""
    for table in CHECKED:
        for event in ("insert", "delete", "update"):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS total_{table.name}_{event}")


def store_totals(connection: Connection, totals: Mapping[str, int] | None = None) -> None:
    """Store these sums, by default those of the rows as they are; PostgreSQL has none."""
    if is_postgresql(connection):
        return
    for table in CHECKED:
        total = totals.get(table.name) if totals is not None else current_total(connection, table)
        if total is not None:
            query = "INSERT OR REPLACE INTO row_totals (name, total) VALUES (?, ?)"
            connection.exec_driver_sql(query, (table.name, total))


def read_totals(connection: Connection) -> dict[str, int]:
    """Return the stored sums, by the name of the table."""
    rows = connection.exec_driver_sql("SELECT name, total FROM row_totals").all()
    return {row.name: row.total for row in rows}


def current_total(connection: Connection, table: Table) -> int:
    """Return the sum of a table's checksums as they are."""
    query = f"SELECT sum(checksum) FROM {table.name} NOT INDEXED"
    return int(connection.exec_driver_sql(query).scalar() or 0)
