"""Rows of images in the database, many at once; each function works within the transaction it is given."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, Connection, delete, insert, select

from cbir.store.records import Record
from cbir.store.schema import AT_ONCE, images, tombstones

Entry = tuple[Record, NDArray[np.float32]]

_INSERT_IMAGE = (
    f"INSERT INTO images ({', '.join(column.name for column in images.c)}) "
    f"VALUES ({', '.join(f':{column.name}' for column in images.c)})"
)


def insert_entries(connection: Connection, entries: Sequence[Entry]) -> dict[str, int]:
    """Insert records and vectors under the numbers that follow the last one ever given; these, by image id."""
    if not entries:
        return {}
    given = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'images'").scalar()
    image_rows: list[dict[str, Any]] = []
    label_rows: list[tuple[str, str, int]] = []
    vector_rows: list[tuple[int, bytes]] = []
    for number, (record, vector) in enumerate(entries, start=(given or 0) + 1):
        values = dict(record.__dict__)
        label_rows += [(key, value, number) for key, value in values.pop("labels").items()]
        image_rows.append({"number": number, **values})
        vector_rows.append((number, np.asarray(vector, "<f4").tobytes()))
    # The many small rows go to the driver as they are: a quarter of an indexing run's own work otherwise.
    connection.exec_driver_sql(_INSERT_IMAGE, image_rows)
    connection.exec_driver_sql("INSERT INTO vectors (number, vector) VALUES (?, ?)", vector_rows)
    if label_rows:
        connection.exec_driver_sql("INSERT INTO labels (key, value, number) VALUES (?, ?, ?)", label_rows)
    return {row["image_id"]: row["number"] for row in image_rows}


def matching(
    connection: Connection, wanted: Sequence[Column[Any]], column: Column[Any], values: Iterable[str]
) -> list[Any]:
    """The wanted columns of the rows of a table that have one of `values` in `column`.

    A statement that never changes, run by the driver: `IN` with a list is put together anew each time, which takes
    longer than finding the rows where they are few. Values with a zero character match nothing.
    """
    names = ", ".join(one.name for one in wanted)
    query = f"SELECT {names} FROM {column.table.name} WHERE {column.name} IN (SELECT value FROM json_each(?))"
    sent = json.dumps([one for one in values if "\0" not in one])  # SQLite would cut them there
    return list(connection.exec_driver_sql(query, (sent,)).all())


def delete_images(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete images (vectors and labels follow by cascade) and mark their numbers for the snapshot's sake."""
    for part in parts(numbers):
        connection.execute(insert(tombstones), [{"number": number} for number in part])
        connection.execute(delete(images).where(images.c.number.in_(part)))


def ids_of(connection: Connection, numbers: Sequence[Any]) -> list[str]:
    """The ids of the images with these numbers."""
    return [
        image_id
        for part in parts(sorted(set(numbers)))
        for image_id in connection.scalars(select(images.c.image_id).where(images.c.number.in_(part)))
    ]


def delete_rows(connection: Connection, column: Any, values: Sequence[str]) -> None:
    """Delete the rows that have one of these values in a table's column."""
    for part in parts(values):
        connection.execute(delete(column.table).where(column.in_(part)))


def parts(values: Sequence[Any]) -> list[Sequence[Any]]:
    """The same values, no more at once than a statement takes."""
    return [values[start : start + AT_ONCE] for start in range(0, len(values), AT_ONCE)]
