"""Table of quarantined images, made when the first image is quarantined."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Column, Connection, LargeBinary, MetaData, Table, Text, delete, func, select

from cbir.store.base.checksums import COLUMN
from cbir.store.base.schema import AT_ONCE
from cbir.store.base.statements import WHOLE_NUMBER, is_postgresql

quarantine = Table(
    "quarantine",
    MetaData(),
    Column("image_id", Text, primary_key=True),  # hash of the content
    Column("record", Text, nullable=False),  # JSON
    Column("vector", LargeBinary, nullable=False),  # raw, float32, little-endian
    Column("picture", LargeBinary, nullable=False),  # JPEG
    Column("source", Text, nullable=False, index=True),
    Column("patient_key", Text, index=True),
    Column("at", Text, nullable=False),  # UTC, ISO 8601
    Column("who", Text, nullable=False),
    Column(COLUMN, WHOLE_NUMBER),  # of record, vector and picture
)


def has_quarantine(connection: Connection) -> bool:
    """Return whether the table is there."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'quarantine')"
        if is_postgresql(connection)
        else "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'quarantine')"
    )
    return bool(connection.exec_driver_sql(query).scalar())


def create_quarantine(connection: Connection) -> None:
    """Make the table, unless it is there."""
    if not has_quarantine(connection):
        quarantine.create(connection, checkfirst=False)


def count_quarantined(connection: Connection) -> int:
    """Return the number of quarantined images."""
    if not has_quarantine(connection):
        return 0
    return connection.scalar(select(func.count()).select_from(quarantine)) or 0


def held_sources(connection: Connection, sources: Iterable[str] | None = None) -> set[str]:
    """Return the sources of quarantined images; only those among `sources`, if they are given."""
    if not has_quarantine(connection):
        return set()
    held = set(connection.scalars(select(quarantine.c.source)))
    return held if sources is None else held.intersection(sources)


def quarantined_of(connection: Connection, patient_keys: Sequence[str]) -> list[tuple[str, str]]:
    """Return ids and sources of the quarantined images of patients with these keys."""
    if not has_quarantine(connection):
        return []
    c = quarantine.c
    rows = connection.execute(select(c.image_id, c.source).where(c.patient_key.in_(patient_keys)))
    return [(row.image_id, row.source) for row in rows]


def delete_quarantined(connection: Connection, column: Column[Any], values: Sequence[str]) -> int:
    """Delete the rows with one of these values in a column; return their number."""
    if not values or not has_quarantine(connection):
        return 0
    return sum(
        connection.execute(delete(quarantine).where(column.in_(values[start : start + AT_ONCE]))).rowcount
        for start in range(0, len(values), AT_ONCE)
    )
