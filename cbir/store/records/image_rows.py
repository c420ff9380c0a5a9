"""Bulk operations on image rows; each function works within the transaction of its connection.

Of erased content, keyed hashes remain as marks, some of which came from another collection.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, delete, select, text

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store.base import metadata
from cbir.store.base.profile import VectorFormat
from cbir.store.base.schema import AT_ONCE, erased, forgotten, images
from cbir.store.base.statements import (
    COLUMN,
    Statement,
    checksum_sql,
    insert_missing,
    is_postgresql,
    values_checksum,
    vector_checksum,
    with_checksum,
)
from cbir.store.records.patient_key import read_secret
from cbir.store.records.records import Entry, stored_labels
from cbir.store.safety import row_damage
from cbir.store.safety.row_damage import describe_damage
from cbir.store.snapshot.stored_snapshot import store_tombstones

MIRRORED = "mirrored_marks"  # key in `meta`


@dataclass(frozen=True)
class Mirrored:
    """Marks that were carried over from another collection, as of its latest `change`."""

    change: int = 0
    marks: frozenset[str] = frozenset()


def content_marker(folder: Path) -> Callable[[str], str]:
    """Return the function that computes the mark of a content hash in the collection in `folder`.

    The mark is what remains of an erased image: only a person who has the image and the collection's key can tell
    that it was erased.
    """
    key = read_secret(folder)

    def mark(content_hash: str) -> str:
        content = content_hash.encode()
        return hashlib.blake2b(content, key=key, digest_size=16, person=b"erased content").hexdigest()

    return mark


def read_mirrored(connection: Connection) -> Mirrored:
    """Return the marks that were carried over from another collection."""
    text = metadata.find_value(connection, MIRRORED)
    if text is None:
        return Mirrored()
    noted = json.loads(text)
    return Mirrored(noted["change"], frozenset(noted["marks"]))


def claim_marks(connection: Connection, marks: Iterable[str]) -> None:
    """Note that content was erased in this collection itself, even if its marks were carried over before."""
    mirrored = read_mirrored(connection)
    if own := mirrored.marks.intersection(marks):
        noted = {"change": mirrored.change, "marks": sorted(mirrored.marks - own)}
        metadata.set_value(connection, MIRRORED, json.dumps(noted))


def delete_marks(connection: Connection, marks: Iterable[str]) -> None:
    """Delete marks: their content may be added again."""
    ordered = sorted(marks)
    for start in range(0, len(ordered), AT_ONCE):
        connection.execute(delete(erased).where(erased.c.mark.in_(ordered[start : start + AT_ONCE])))


T = TypeVar("T")

LONGEST_KEY = 1000  # bytes in UTF-8; PostgreSQL indexes keys

COLUMNS = [column.name for column in images.c if column.name != COLUMN]

_INSERT_IMAGE = (
    f"INSERT INTO images ({', '.join([*COLUMNS, COLUMN])}) "
    f"VALUES ({', '.join(f':{name}' for name in COLUMNS)}, {checksum_sql(images, ':')})"
)

_INSERT_CHECKED_IMAGE = (
    f"INSERT INTO images ({', '.join([*COLUMNS, COLUMN])}) "
    f"VALUES ({', '.join(f'%({name})s' for name in [*COLUMNS, COLUMN])})"
)

_INSERT_VECTOR = Statement("INSERT INTO vectors (number, vector, checksum) VALUES (?, ?, ?)")

_INSERT_LABEL = Statement("INSERT INTO labels (key, value, number, checksum) VALUES (?, ?, ?, ?)")


def insert_entries(
    connection: Connection, entries: Sequence[Entry], stored_format: VectorFormat
) -> dict[str, int]:
    """Insert records and vectors with the next numbers.

    Parameters
    ----------
    connection : Connection
    entries : sequence of (Record, (d,) float32)
    stored_format : VectorFormat
        Format of the vectors.

    Returns
    -------
    dict of str to int
        Numbers by image id.
    """
    if not entries:
        return {}
    image_rows: list[dict[str, Any]] = []
    label_rows: list[tuple[str, str, int]] = []
    vector_rows: list[tuple[int, bytes, int]] = []
    for number, (record, vector) in enumerate(entries, start=last_number(connection) + 1):
        values = dict(record.__dict__)
        del values["labels"], values["study_day"], values["slice_place"]
        label_rows += [(key, value, number) for key, value in stored_labels(record).items()]
        image_rows.append({"number": number, **values})
        stored = stored_format.encode(vector)
        vector_rows.append((number, stored, vector_checksum(number, stored)))
    # The many small rows go to the driver as they are: otherwise a quarter of the time of an indexing run.
    if is_postgresql(connection):
        checked = [row_damage.with_image_checksum(row) for row in image_rows]
        connection.exec_driver_sql(_INSERT_CHECKED_IMAGE, checked)
    else:
        connection.exec_driver_sql(_INSERT_IMAGE, image_rows)
    _INSERT_VECTOR.run_many(connection, vector_rows)
    insert_labels(connection, label_rows)
    return {row["image_id"]: row["number"] for row in image_rows}


def last_number(connection: Connection) -> int:
    """Return the largest number that an image has ever had."""
    if is_postgresql(connection):
        return row_damage.largest_number(connection)
    last = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'images'").scalar()
    return int(last or 0)


def insert_labels(connection: Connection, rows: Iterable[tuple[str, str, int]]) -> None:
    """Insert labels: keys, values and image numbers. Raises InvalidInput for a key that is too long."""
    rows = list(rows)
    for key in {key for key, _, _ in rows}:
        require_short_key(key)
    values = [(key, value, number, values_checksum(key, value, number)) for key, value, number in rows]
    if values:
        _INSERT_LABEL.run_many(connection, values)


def require_short_key(key: str) -> None:
    """Raise InvalidInput if the key of a label is longer than both databases take."""
    if (length := len(key.encode("utf-8", "surrogatepass"))) > LONGEST_KEY:
        raise InvalidInput(
            f"the label '{key[:40]}...' has a name of {length} bytes; {LONGEST_KEY} are allowed, rename it"
        )


def update_images(connection: Connection, numbers: Sequence[int], values: Mapping[str, Any]) -> None:
    """Update the rows of images; raises CollectionDamaged where a new checksum would cover up damage.

    Parameters
    ----------
    connection : Connection
    numbers : sequence of int
        Numbers of the images.
    values : mapping
        New values by column.
    """
    assigned = {**{name: f":{name}" for name in values}, COLUMN: checksum_sql(images, given=values)}
    query = (
        f"UPDATE images SET {', '.join(f'{name} = {value}' for name, value in assigned.items())} "
        "WHERE number IN (SELECT value FROM json_each(:numbers))"
    )
    for batch in batches(numbers):
        among = images.c.number.in_(batch)
        if is_postgresql(connection):
            rows = connection.execute(select(images).where(among)).all()
            if wrong := row_damage.unsound_images(rows):
                raise CollectionDamaged(describe_damage(connection, "records", wrong))
            row_damage.update_image_rows(connection, rows, values)
            continue
        damaged = text(f"{COLUMN} IS NOT {checksum_sql(images)}")
        if wrong := list(connection.scalars(select(images.c.number).where(among, damaged))):
            raise CollectionDamaged(describe_damage(connection, "records", wrong))
        connection.exec_driver_sql(query, {**values, "numbers": json.dumps(list(batch))})


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
    query = Statement(f"SELECT {names} FROM {column.table.name} WHERE {column.name} IN ?")
    return list(
        query.run(connection, [value for value in values if "\0" not in value])
    )  # SQLite would cut them


def ids_by_content(connection: Connection, hashes: Iterable[str]) -> dict[str, set[str]]:
    """Return the ids of the images with these content hashes."""
    ids: dict[str, set[str]] = {}
    columns = images.c.content_hash, images.c.image_id
    for content_hash, image_id in rows_matching(connection, columns, images.c.content_hash, set(hashes)):
        ids.setdefault(content_hash, set()).add(image_id)
    return ids


def deleted_content(connection: Connection, hashes: Iterable[str], folder: Path) -> set[str]:
    """Return those of the content hashes that a user deleted earlier, or erased with their patient.

    Parameters
    ----------
    connection : Connection
    hashes : iterable of str
        Content hashes.
    folder : Path
        Folder of the collection, which holds its key.
    """
    hashes = set(hashes)
    column = forgotten.c.content_hash
    deleted = {row[0] for row in rows_matching(connection, [column], column, hashes)}
    if connection.scalar(select(erased.c.mark).limit(1)) is not None:
        mark = content_marker(folder)
        by_mark = {mark(content_hash): content_hash for content_hash in hashes}
        marks = rows_matching(connection, [erased.c.mark], erased.c.mark, by_mark)
        deleted |= {by_mark[row[0]] for row in marks}
    return deleted


def store_erased_marks(connection: Connection, hashes: Iterable[str], folder: Path) -> None:
    """Store the marks of erased content, by its `hashes` and `connection`; `folder` is that of the collection."""
    mark = content_marker(folder)
    rows = [with_checksum(erased, {"mark": mark(content_hash)}) for content_hash in set(hashes)]
    if rows:
        claim_marks(connection, [row["mark"] for row in rows])
        insert_missing(connection, erased, rows)


def restore_content(connection: Connection, hashes: Sequence[str], folder: Path) -> None:
    """Forget that content with these `hashes` was deleted or erased, in `folder`, by `connection`."""
    delete_rows(connection, forgotten.c.content_hash, hashes)
    delete_marks(connection, map(content_marker(folder), hashes))


def delete_images(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete images (vectors and labels follow by cascade) and add tombstones for the snapshot."""
    for batch in batches(numbers):
        store_tombstones(connection, batch)
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
