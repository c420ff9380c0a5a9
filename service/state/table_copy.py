"""Copying the state of a service from one database to another."""

from collections.abc import Callable

from sqlalchemy import Connection, Table, func, insert, select

from cbir.errors import InvalidInput
from service.state.all_tables import all_tables
from service.state.database import StateDatabase
from service.state.schema import VERSION_TABLE

BATCH = 100  # rows of a statement; one may have a picture


def copy_state(
    source: StateDatabase, target: StateDatabase, continue_numbers: Callable[[Connection, Table], None]
) -> dict[str, int]:
    """Copy all rows, in one transaction, and return their number by table.

    Parameters
    ----------
    source, target : StateDatabase
        Databases of the same version of cbir, or older ones, which are upgraded; `target` must be empty.
    continue_numbers : callable
        Makes `target` number new rows of a table after those that were copied.

    Raises
    ------
    InvalidInput
        If `target` has rows.
    """
    copied = [table for table in all_tables() if table.name != VERSION_TABLE]
    with source.reading() as read, target.writing() as write:
        for table in copied:
            if _count(write, table):
                raise InvalidInput(
                    f"the table {table.name} of state_database has rows already; copy before a service uses it, "
                    "or name a new schema behind it with ?schema=NAME"
                )
        for table in copied:
            for rows in read.execute(select(table)).partitions(BATCH):
                write.execute(insert(table), [dict(row._mapping) for row in rows])
            continue_numbers(write, table)
        return {table.name: _count(write, table) for table in copied}


def _count(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()
