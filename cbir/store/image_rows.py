"""Bulk operations on image rows; each function works within the transaction of its connection."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Column, Connection, delete, insert, select

from cbir.store.records import Entry
from cbir.store.schema import AT_ONCE, forgotten, images, tombstones

T = TypeVar("T")

_INSERT_IMAGE = (
    f"INSERT INTO images ({', '.join(column.name for column in images.c)}) "
    f"VALUES ({', '.join(f':{column.name}' for column in images.c)})"
)


def insert_entries(connection: Connection, entries: Sequence[Entry]) -> dict[str, int]:
    """Insert records and vectors with the next numbers; return the numbers by image id."""
    if not entries:
        return {}
    last = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'images'").scalar()
    image_rows: list[dict[str, Any]] = []
    label_rows: list[tuple[str, str, int]] = []
    vector_rows: list[tuple[int, bytes]] = []
    for number, (record, vector) in enumerate(entries, start=(last or 0) + 1):
        values = dict(record.__dict__)
        label_rows += [(key, value, number) for key, value in values.pop("labels").items()]
        image_rows.append({"number": number, **values})
        vector_rows.append((number, np.asarray(vector, "<f4").tobytes()))
    # The many small rows go to the driver as they are: otherwise a quarter of the time of an indexing run.
    connection.exec_driver_sql(_INSERT_IMAGE, image_rows)
    connection.exec_driver_sql("INSERT INTO vectors (number, vector) VALUES (?, ?)", vector_rows)
    if label_rows:
        connection.exec_driver_sql("INSERT INTO labels (key, value, number) VALUES (?, ?, ?)", label_rows)
    return {row["image_id"]: row["number"] for row in image_rows}


def rows_matching(
    connection: Connection, columns: Sequence[Column[Any]], column: Column[Any], values: Iterable[str]
) -> list[Any]:
    """Select the rows of a table whose `column` has one of `values`.

    One constant statement, run by the driver: SQLAlchemy compiles `IN` with a list for every call, which takes longer
    than the query if few rows match. Values with a null character match nothing.

    Parameters
    ----------
    connection : Connection
    columns : sequence of Column
        Columns to return.
    column : Column
        Column to compare, of the same table.
    values : iterable of str
        Values to look up.
    """
    names = ", ".join(column_.name for column_ in columns)
    query = f"SELECT {names} FROM {column.table.name} WHERE {column.name} IN (SELECT value FROM json_each(?))"
    values_json = json.dumps([value for value in values if "\0" not in value])  # SQLite would cut them there
    return list(connection.exec_driver_sql(query, (values_json,)))


def ids_by_content(connection: Connection, hashes: Iterable[str]) -> dict[str, set[str]]:
    """Return the ids of the images with these content hashes."""
    ids: dict[str, set[str]] = {}
    columns = images.c.content_hash, images.c.image_id
    for content_hash, image_id in rows_matching(connection, columns, images.c.content_hash, set(hashes)):
        ids.setdefault(content_hash, set()).add(image_id)
    return ids


def deleted_content(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Return those of the content hashes that a user deleted earlier."""
    column = forgotten.c.content_hash
    return {row[0] for row in rows_matching(connection, [column], column, hashes)}


def delete_images(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete images (vectors and labels follow by cascade) and add tombstones for the snapshot."""
    for batch in batches(numbers):
        connection.execute(insert(tombstones), [{"number": number} for number in batch])
        connection.execute(delete(images).where(images.c.number.in_(batch)))


def ids_of(connection: Connection, numbers: Sequence[Any]) -> list[str]:
    """Return the ids of the images with these numbers."""
    return [
        image_id
        for batch in batches(sorted(set(numbers)))
        for image_id in connection.scalars(select(images.c.image_id).where(images.c.number.in_(batch)))
    ]


def delete_rows(connection: Connection, column: Any, values: Sequence[str]) -> None:
    """Delete rows of a table.

    Parameters
    ----------
    connection : Connection
    column : Column
        Column to compare; names the table.
    values : sequence of str
        Values whose rows are deleted.
    """
    for batch in batches(values):
        connection.execute(delete(column.table).where(column.in_(batch)))


def batches(values: Sequence[T]) -> list[Sequence[T]]:
    """Split values into batches that fit into one statement."""
    return [values[start : start + AT_ONCE] for start in range(0, len(values), AT_ONCE)]
