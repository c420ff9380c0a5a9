"""Statements on rows in the form of PostgreSQL; checksums are computed here, not in the database."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, bindparam, func, select, update

from cbir.store.base.checksums import COLUMN, row_checksum, values_checksum, with_checksum
from cbir.store.base.metadata import UNCHECKED
from cbir.store.base.schema import images, meta, thumbnails, tombstones, vectors

PAGE = 8192


def damaged_row_keys(connection: Connection, table: Table, *conditions: ColumnElement[bool]) -> list[Any]:
    """Return the image numbers, or else the keys, of the rows that do not match their checksums; ascending.

    Parameters
    ----------
    connection : Connection
    table : Table
        One of `schema.CHECKED`.
    conditions : ColumnElement
        Conditions on the rows to read.
    """
    key = table.c.number if "number" in table.c else next(iter(table.primary_key))
    query = select(table, key.label("key_of_row")).where(*conditions)
    rows = connection.execution_options(yield_per=PAGE).execute(query)
    return sorted({row.key_of_row for row in rows if not _is_sound(table, row)})


def _is_sound(table: Table, row: Row[Any]) -> bool:
    *values, checksum, _ = tuple(row)
    if table is meta and values[0] == UNCHECKED:
        return True
    if table in (vectors, thumbnails):
        return bool(checksum == row_checksum(b"%d" % values[0], values[1]))
    return bool(checksum == values_checksum(*values))


def largest_number(connection: Connection) -> int:
    """Return the largest number that an image has ever had: a deleted one has a tombstone for ever."""
    largest = func.greatest(
        select(func.max(images.c.number)).scalar_subquery(),
        select(func.max(tombstones.c.number)).scalar_subquery(),
    )
    return connection.scalar(select(largest)) or 0


def with_image_checksum(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `images` with its checksum."""
    return with_checksum(images, {**row, "burned_in": int(row["burned_in"])})


def update_image_rows(connection: Connection, rows: Sequence[Row[Any]], values: Mapping[str, Any]) -> None:
    """Give sound `rows` of images new `values` and checksums, in the transaction of `connection`."""
    changed = [with_image_checksum({**row._mapping, **values}) for row in rows]
    for row in changed:
        row["of_number"] = row.pop("number")
    names = [column.name for column in images.c if column.name != "number"]
    query = update(images).where(images.c.number == bindparam("of_number"))
    if changed:
        connection.execute(query.values({name: bindparam(name) for name in names}), changed)


def unsound_images(rows: Sequence[Row[Any]]) -> list[int]:
    """Return the numbers of those rows of `images` that do not match their checksums."""
    return [row.number for row in rows if row._mapping[COLUMN] != values_checksum(*row[:-1])]
