"""Rows that do not match their checksums, in SQLite and in PostgreSQL, where checksums are computed here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Row, Table, bindparam, func, select, update

from cbir.errors import CollectionDamaged
from cbir.store.base.damage import (
    REPAIR,
    changed_history,
    checked_and_history,
    current_total,
    has_other_types,
    read_totals,
)
from cbir.store.base.metadata import UNCHECKED, required_value
from cbir.store.base.profile import Profile, vector_format
from cbir.store.base.schema import CHECKED, LISTS, images, meta, thumbnails, tombstones, vectors
from cbir.store.base.statements import (
    COLUMN,
    Statement,
    checksum_sql,
    is_postgresql,
    row_checksum,
    values_checksum,
    vector_checksum,
    with_checksum,
)

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


VECTOR = Statement("SELECT CAST(vector AS BLOB) FROM vectors WHERE number = ?")

IMAGE_ID = Statement("SELECT CAST(image_id AS BLOB) FROM images WHERE number = ?")

Progress = Callable[[str, int, int], None]  # stage, rows done, rows in all

LISTED = 5  # images named in a message

CONTENT = {
    "meta": "settings",
    "images": "records",
    "vectors": "vectors",
    "labels": "labels",
    "thumbnails": "thumbnails",
    "forgotten": "the list of deleted images",
    "erased": "the list of erased images",
    "instance_copies": "the list of further DICOM instances",
    "originals": "the list of originals",
}


def damaged_keys(connection: Connection, table: Table, progress: Progress | None = None) -> list[Any]:
    """Return the image numbers of damaged rows, keys in `meta`, hexadecimal keys in lists; once each, in order.

    Parameters
    ----------
    connection : Connection
    table : Table
        One of `schema.CHECKED`.
    progress : callable, optional
        Called with stage, rows done and rows in all.
    """
    if is_postgresql(connection):
        return damaged_row_keys(connection, table)
    key = "CAST(key AS TEXT)" if table is meta else "number"
    if table in LISTS:
        (column,) = table.primary_key
        key = f"hex({column.name})"
    exempt = f"key <> '{UNCHECKED}' AND" if table is meta else ""
    differs = f"{exempt} {COLUMN} IS NOT {checksum_sql(table)}"
    if progress is None:
        # Without ORDER BY, for which SQLite would use an index: that does not lead to rows with a damaged key.
        query = f"SELECT {key} FROM {table.name} NOT INDEXED WHERE {differs}"
        return sorted(set(connection.exec_driver_sql(query).scalars()))
    total = connection.exec_driver_sql(f"SELECT count(*) FROM {table.name}").scalar() or 0
    query = f"SELECT {key}, {differs} FROM {table.name} NOT INDEXED"
    damaged, done = set(), 0
    for rows in connection.execution_options(yield_per=PAGE).exec_driver_sql(query).partitions(PAGE):
        damaged |= {key for key, is_damaged in rows if is_damaged}
        done += len(rows)
        progress(CONTENT[table.name].removeprefix("the "), done, total)
    return sorted(damaged)


def row_problems(
    connection: Connection,
    tables: Iterable[Table] = CHECKED,
    apart_from: Iterable[int] = (),
    progress: Progress | None = None,
) -> list[str]:
    """Describe the damaged rows of `tables`, one line per table.

    Parameters
    ----------
    connection : Connection
    tables : iterable of Table
        Tables to read, of `schema.CHECKED`.
    apart_from : iterable of int
        Numbers of images to leave out.
    progress : callable, optional
        Called with stage, rows done and rows in all.
    """
    problems, exempt = list[str](), set(apart_from)
    for table in tables:
        damaged = damaged_keys(connection, table, progress)
        keys = [key for key in damaged if key not in exempt]
        if not damaged and _lacks_rows(connection, table):
            problems.append(f"rows of {CONTENT[table.name]} are missing from the database; {REPAIR}")
        elif keys and table in LISTS:
            problems.append(
                f"{len(keys)} entries of {CONTENT[table.name]} do not match their checksums; {REPAIR}"
            )
        elif keys and table is meta:
            problems.append(f"{', '.join(keys)} in the database: the checksum differs; {REPAIR}")
        elif keys:
            problems.append(describe_damage(connection, CONTENT[table.name], keys))
    return problems


def _lacks_rows(connection: Connection, table: Table) -> bool:
    """Return whether a damaged SQLite file has lost rows of a table."""
    if is_postgresql(connection):
        return False
    return read_totals(connection).get(table.name) != current_total(connection, table)


def describe_damage(connection: Connection, content: str, numbers: Sequence[int]) -> str:
    """Describe damage of the `content` of images, with the ids of the first few.

    Parameters
    ----------
    connection : Connection
    content : str
        Name of what is damaged, for instance "vectors".
    numbers : sequence of int
        Numbers of the images.
    """
    not_finite = _count_not_finite(connection, numbers) if content == "vectors" else 0
    detail = f" ({not_finite} contain values that are not finite numbers)" if not_finite else ""
    return (
        f"the {content} of {len(numbers)} images ({name_images(connection, numbers)}) do not match their "
        f"checksums{detail}; {REPAIR}"
    )


def _count_not_finite(connection: Connection, numbers: Sequence[int]) -> int:
    try:
        stored_format = vector_format(Profile.model_validate_json(required_value(connection, "profile")))
    except (CollectionDamaged, ValueError):
        return 0
    stored = (VECTOR.run(connection, number).scalar() or b"" for number in numbers)
    whole = [vector for vector in stored if len(vector) == stored_format.size]
    return len(vectors_not_finite(stored_format.decode(whole)))


def damaged_vectors(rows: Iterable[Any], size: int) -> list[int]:
    """Return the numbers of those (number, vector, checksum) whose vector, `size` bytes, is not what was stored."""
    return [
        number
        for number, vector, checksum in rows
        if vector is None or checksum != vector_checksum(number, vector) or len(vector) != size
    ]


def vectors_not_finite(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the rows of (n, d) `vectors` with values that are not finite, or whose squares are not."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.vdot(vectors, vectors)):
            return np.empty(0, np.int64)
        return np.flatnonzero(~np.isfinite(np.einsum("ij,ij->i", vectors, vectors)))


def describe_not_finite(connection: Connection, numbers: Sequence[int]) -> str:
    """Describe vectors that no distance can be computed from."""
    return (
        f"{len(numbers)} vectors contain values that are not finite numbers (images "
        f"{name_images(connection, numbers)}); {REPAIR}"
    )


def name_images(connection: Connection, numbers: Sequence[int]) -> str:
    """Return the ids of the first few images, also where the id is damaged."""
    names = []
    for number in numbers[:LISTED]:
        stored = IMAGE_ID.run(connection, number).scalar()
        name = (stored or b"").decode("ascii", "replace")
        names.append(name if name.isprintable() and name.isascii() and name else f"number {number}")
    return ", ".join(names) + (", ..." if len(numbers) > LISTED else "")


def missing_vectors(connection: Connection) -> list[str]:
    """Describe the images that have no vector, in one line."""
    query = (
        select(images.c.number).outerjoin(vectors).where(vectors.c.number.is_(None)).order_by(images.c.number)
    )
    numbers = connection.scalars(query).all()
    if not numbers:
        return []
    return [
        f"{len(numbers)} images ({name_images(connection, numbers)}) have no vector; {REPAIR}, or delete them and "
        "index their sources again"
    ]


def history_problems(connection: Connection) -> list[str]:
    """Describe the tables of the history in a SQLite file that have lost rows or have others, in one line."""
    changed = changed_history(connection)
    if not changed:
        return []
    return [
        f"rows of the history ({', '.join(changed)}) are not what was written; compare it with that of a backup, "
        "then `cbir collection verify --repair` takes it as it is"
    ]


def type_problems(connection: Connection) -> list[str]:
    """Describe the tables of a SQLite file whose texts are stored as bytes or the other way round, in one line."""
    tables = [table.name for table in checked_and_history(connection) if has_other_types(connection, table)]
    return [f"values of {', '.join(tables)} are not of the type of their column; {REPAIR}"] if tables else []


def require_sound_rows(connection: Connection) -> None:
    """Raise CollectionDamaged if rows do not match their checksums, vectors apart.

    In PostgreSQL, which has no copy that damage could spread to, only images without a vector count.
    """
    if is_postgresql(connection):
        if problems := missing_vectors(connection):
            raise CollectionDamaged("; ".join(problems))
        return
    tables = [table for table in CHECKED if table is not vectors]
    problems = row_problems(connection, tables) + missing_vectors(connection)
    if problems := problems + history_problems(connection) + type_problems(connection):
        raise CollectionDamaged("; ".join(problems))
