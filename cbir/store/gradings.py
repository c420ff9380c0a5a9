"""Rankers that were learnt from a collection's grades, kept in its table `meta`, one for each label of grades."""

from sqlalchemy import Connection, delete, select

from cbir.store import facts
from cbir.store.schema import meta

PREFIX = "grading:"


def store(connection: Connection, column: str, text: str) -> None:
    """Keep what was learnt from the label `column`, in place of what was kept before."""
    facts.store(connection, PREFIX + column, text)


def read(connection: Connection, column: str) -> str | None:
    """What was learnt from the label `column`; None where nothing was."""
    return connection.scalar(select(meta.c.value).where(meta.c.key == PREFIX + column))


def columns(connection: Connection) -> list[str]:
    """The labels that something was learnt from, in alphabetical order."""
    keys = connection.scalars(select(meta.c.key).where(meta.c.key.startswith(PREFIX, autoescape=True)))
    return sorted(key.removeprefix(PREFIX) for key in keys)


def forget(connection: Connection) -> None:
    """Drop all: they were learnt from images that nothing may remember."""
    connection.execute(delete(meta).where(meta.c.key.startswith(PREFIX, autoescape=True)))
