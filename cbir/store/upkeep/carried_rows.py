"""Copy rows, also those in quarantine, to a collection that has the same images under the same numbers.

Rows are compared by key and checksum and copied with their checksum, so damage stays visible.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, Connection, Table, and_, delete, func, insert, or_, select, update
from sqlalchemy.dialects.sqlite import insert as insert_or

from cbir.errors import InvalidInput
from cbir.store.base.schema import (
    delete_quarantined,
    erased,
    forgotten,
    has_quarantine,
    images,
    instance_copies,
    labels,
    quarantine,
    thumbnails,
    tombstones,
    vectors,
)
from cbir.store.base.statements import COLUMN, is_postgresql, row_checksum, vector_checksum
from cbir.store.records.image_rows import batches, deleted_content, ids_by_content
from cbir.store.safety.change_log import ensure_quarantine
from cbir.store.upkeep.carried_history import Erasures

OF_IMAGES = (
    labels,
    thumbnails,
    instance_copies,
)  # tables with rows of an image, besides its record and vector

KEYS_AT_ONCE = 500  # alternatives in one condition

Key = tuple[Any, ...]


def insert_images(
    source: Connection,
    target: Connection,
    stored_vectors: dict[int, bytes],
    erasures: Erasures,
) -> list[tuple[int, str]]:
    """Insert those images of `source` that still exist there, and return their numbers and sources.

    Parameters
    ----------
    source, target : Connection
    stored_vectors : dict of int to bytes
        Stored form of the new vectors, by image number.
    erasures : Erasures
        What is erased in the target: its DICOM instances are left out.
    """
    rows = _full_rows(source, images, images.c.number, list(stored_vectors))
    if not rows:
        return []
    numbers = [row["number"] for row in rows]
    # Of images that had these numbers before.
    target.execute(delete(tombstones).where(tombstones.c.number.in_(numbers)))
    target.execute(insert(images), rows)
    target.execute(
        insert(vectors),
        [
            {
                "number": number,
                "vector": stored_vectors[number],
                COLUMN: vector_checksum(number, stored_vectors[number]),
            }
            for number in numbers
        ],
    )
    for table in OF_IMAGES:
        rows_of = _full_rows(source, table, table.c.number, numbers)
        _insert(
            target,
            table,
            [row for row in rows_of if table is not instance_copies or not erasures.has_copy(row)],
        )
    return [(row["number"], row["source"]) for row in rows]


def update_images(source: Connection, target: Connection, numbers: Sequence[int], erasures: Erasures) -> int:
    """Make everything but the vectors of images equal to `source`; return the number of images that changed.

    Parameters
    ----------
    source, target : Connection
    numbers : sequence of int
        Numbers of images that both have; at most some thousand.
    erasures : Erasures
        What is erased in the target: its DICOM instances are left out.

    Raises
    ------
    InvalidInput
        If a number means another image in `target`.
    """
    changed = set(_update_records(source, target, numbers))
    for table in OF_IMAGES:
        if _fingerprint(source, table, numbers) == _fingerprint(target, table, numbers):
            continue
        theirs, ours = (_keys(connection, table, table.c.number, numbers) for connection in (source, target))
        if table is instance_copies and erasures.own:
            copies = filter(erasures.has_copy, _full_rows(source, table, table.c.number, numbers))
            theirs -= {tuple(row[name] for name in [*_key_names(table), COLUMN]) for row in copies}
        stale, missing = ours - theirs, theirs - ours
        _delete(target, table, stale)
        _insert(target, table, _rows_with_keys(source, table, missing))
        position = _key_names(table).index("number")
        changed |= {key[position] for key in stale | missing}
    return len(changed)


def mirror_forgotten(source: Connection, target: Connection, erasures: Erasures) -> bool:
    """Make the list of deleted content equal, but for what is erased in the target; return whether it changed.

    Parameters
    ----------
    source, target : Connection
    erasures : Erasures
        What is erased in the target.
    """
    theirs, ours = (_keys(connection, forgotten) for connection in (source, target))
    covered = erasures.covered({key[0] for key in theirs})
    theirs = {key for key in theirs if key[0] not in covered}
    _delete(target, forgotten, ours - theirs)
    _insert(target, forgotten, _rows_with_keys(source, forgotten, theirs - ours))
    return theirs != ours


def has_surplus(source: Connection, target: Connection, table: Table, kept: Collection[int] = ()) -> bool:
    """Return whether the target has rows that the source does not have any more.

    Parameters
    ----------
    source, target : Connection
    table : Table
        Table to compare, by keys and checksums.
    kept : collection of int
        Numbers of images that only the target has.
    """
    surplus = _keys(target, table) - _keys(source, table)
    if table is instance_copies:
        position = _key_names(table).index("number")
        surplus = {key for key in surplus if key[position] not in kept}
    return bool(surplus)


def copy_marks(source: Connection, target: Connection, marks: Iterable[str]) -> None:
    """Copy marks of erased content.

    Parameters
    ----------
    source, target : Connection
    marks : iterable of str
        Marks to copy.
    """
    _insert(target, erased, _full_rows(source, erased, erased.c.mark, sorted(marks)))


def _update_records(source: Connection, target: Connection, numbers: Sequence[int]) -> list[int]:
    columns = images.c.number, images.c.image_id, images.c.checksum
    query = select(*columns).where(images.c.number.in_(numbers))
    ours = {row.number: row for row in target.execute(query)}
    changed = []
    for row in source.execute(query):
        if row.image_id != ours[row.number].image_id:
            raise InvalidInput("these collections do not have the same images: name another folder")
        if row.checksum != ours[row.number].checksum:
            changed.append(row.number)
    for values in _full_rows(source, images, images.c.number, changed):
        target.execute(update(images).where(images.c.number == values["number"]).values(values))
    return changed


def _fingerprint(connection: Connection, table: Table, numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the count of the rows of images and two sums of their checksums: far quicker than comparing them."""
    checksum, number = table.c[COLUMN], table.c.number
    weighted = func.sum(checksum * (1 + number % 1000) % 4294967291)
    query = select(func.count(), func.sum(checksum), weighted).where(number.in_(numbers))
    return tuple(map(int, (value or 0 for value in connection.execute(query).one())))


def _key_names(table: Table) -> list[str]:
    names = [column.name for column in table.primary_key]
    return names if "number" in names or "number" not in table.c else [*names, "number"]


def _keys(
    connection: Connection, table: Table, column: Column[Any] | None = None, values: Sequence[int] = ()
) -> set[Key]:
    """Return keys and checksums of all rows of a table, or of those where `column` has one of the `values`."""
    query = select(*(table.c[name] for name in _key_names(table)), table.c[COLUMN])
    if column is not None:
        query = query.where(column.in_(values))
    return {tuple(row) for row in connection.execute(query)}


def _matching(table: Table, keys: Sequence[Key]) -> Any:
    columns = list(table.primary_key)
    if len(columns) == 1:
        return columns[0].in_([key[0] for key in keys])
    return or_(*(and_(*(c == v for c, v in zip(columns, key, strict=False))) for key in keys))


def _some_keys(keys: Iterable[Key]) -> Iterable[Sequence[Key]]:
    ordered = sorted(keys, key=repr)
    return (ordered[start : start + KEYS_AT_ONCE] for start in range(0, len(ordered), KEYS_AT_ONCE))


def _delete(connection: Connection, table: Table, keys: Iterable[Key]) -> None:
    for some in _some_keys(keys):
        connection.execute(delete(table).where(_matching(table, some)))


def _rows_with_keys(connection: Connection, table: Table, keys: Iterable[Key]) -> list[dict[str, Any]]:
    return [
        dict(row._mapping)
        for some in _some_keys(keys)
        for row in connection.execute(select(table).where(_matching(table, some)))
    ]


def _full_rows(
    connection: Connection, table: Table, column: Column[Any], values: Sequence[Any]
) -> list[dict[str, Any]]:
    return [
        dict(row._mapping)
        for batch in batches(values)
        for row in connection.execute(select(table).where(column.in_(batch)).order_by(*table.primary_key))
    ]


def _insert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows; another image may have had a DICOM instance, whose row they replace."""
    if rows and not is_postgresql(connection):
        connection.execute(insert_or(table).prefix_with("OR REPLACE"), rows)
    elif rows:
        if table is instance_copies:
            _delete(connection, table, {(row["instance"],) for row in rows})
        connection.execute(insert(table), rows)


CopyOriginals = Callable[[Connection, Connection, set[str]], None]


def missing_in_quarantine(
    source: Connection, target: Connection, erasures: Erasures
) -> list[tuple[str, str]]:
    """Return ids and sources of quarantined images that the target lacks, in the order of their sources.

    Parameters
    ----------
    source, target : Connection
    erasures : Erasures
        What is erased in the target: its images are left out.
    """
    if not has_quarantine(source):
        return []
    c = quarantine.c
    rows = source.execute(select(c.image_id, c.source, c.patient_key).order_by(c.source)).all()
    ids = [row.image_id for row in rows]
    known = {*_ids(target), *ids_by_content(target, ids), *erasures.covered(ids)}
    return [
        (row.image_id, row.source)
        for row in rows
        if row.image_id not in known and row.patient_key not in erasures.keys
    ]


def quarantine_described(
    source: Connection,
    target: Connection,
    described: Mapping[str, NDArray[np.float32]],
    copy_originals: CopyOriginals,
) -> int:
    """Quarantine images of the source in the target; return how many are still quarantined in the source.

    Parameters
    ----------
    source, target : Connection
        Target in a transaction.
    described : mapping of str to (d,) float32
        New raw vectors by image id.
    copy_originals : callable
        Copies the originals of sources.
    """
    if not described or not has_quarantine(source):
        return 0
    query = select(quarantine).where(quarantine.c.image_id.in_(list(described)))
    rows = [dict(row._mapping) for row in source.execute(query)]
    for row in rows:
        row["vector"] = np.asarray(described[row["image_id"]], "<f4").tobytes()
        row[COLUMN] = row_checksum(row["record"].encode(), row["vector"], bytes(row["picture"]))
    if rows:
        ensure_quarantine(target)
        target.execute(insert(quarantine), rows)
        copy_originals(source, target, {row["source"] for row in rows})
    return len(rows)


def drop_decided(source: Connection, target: Connection, folder: Path) -> set[str]:
    """Delete images from the target's quarantine that were released, refused or erased in the source.

    Parameters
    ----------
    source, target : Connection
        Target in a transaction.
    folder : Path
        Folder of the source, which holds its key.

    Returns
    -------
    set of str
        Their sources.
    """
    quarantined = _ids(target)
    decided = [*ids_by_content(source, quarantined), *deleted_content(source, quarantined, folder)]
    if not decided:
        return set()
    c = quarantine.c
    sources = set(target.scalars(select(c.source).where(c.image_id.in_(decided))))
    delete_quarantined(target, c.image_id, decided)
    return sources


def _ids(connection: Connection) -> set[str]:
    return set(connection.scalars(select(quarantine.c.image_id))) if has_quarantine(connection) else set()
