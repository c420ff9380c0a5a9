"""Numbers of requests by day, action, method and outcome; they name no one and no image."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import (
    Column,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
    delete,
    insert,
    select,
    update,
)

from service.state.database import StateDatabase
from service.state.schema import WholeNumber, tables

counts = Table(
    "request_counts",
    tables,
    Column("day", Text, nullable=False),  # UTC, ISO 8601
    Column("action", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("count", WholeNumber, nullable=False),
    PrimaryKeyConstraint("day", "action", "method", "outcome"),
)


class CountKey(NamedTuple):
    """Key of a count of requests: day (ISO 8601), action, re-ranking method or "", and outcome."""

    day: str
    action: str
    method: str
    outcome: str


def add_counts(database: StateDatabase, added: Mapping[CountKey, int], first_day: str) -> None:
    """Add numbers of requests to those of the database.

    Parameters
    ----------
    database : StateDatabase
        Database to store them in.
    added : mapping of CountKey to int
        Numbers to add.
    first_day : str
        Day, ISO 8601; what was counted before it is deleted.
    """
    with database.writing() as connection:
        for key, count in added.items():
            row = and_(*[counts.c[name] == value for name, value in key._asdict().items()])
            more = update(counts).where(row).values(count=counts.c.count + count)
            if not connection.execute(more).rowcount:
                connection.execute(insert(counts).values(**key._asdict(), count=count))
        connection.execute(delete(counts).where(counts.c.day < first_day))


def load_counts(database: StateDatabase, first_day: str) -> dict[CountKey, int]:
    """Return the numbers of the days from `first_day`."""
    with database.reading() as connection:
        rows = connection.execute(select(counts).where(counts.c.day >= first_day))
        return {CountKey(*row[:4]): int(row[4]) for row in rows}
