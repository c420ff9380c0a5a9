"""Rows that a database has lost, restored from the last good copy, and vectors computed back from normalised ones."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table

from cbir.store.base.damage import current_total
from cbir.store.base.normalisation import Standardisation
from cbir.store.base.schema import vectors
from cbir.store.base.statements import COLUMN, checksum_sql
from cbir.store.safety.row_damage import CONTENT

SOURCE = "from the last good copy"

SAME_IMAGE = """EXISTS (
    SELECT 1 FROM good.images AS gi JOIN main.images AS mi USING (number)
    WHERE gi.number = g.number AND gi.image_id = mi.image_id AND gi.content_hash = mi.content_hash)"""


def insert_row(connection: Connection, table: Table, row: Sequence[Any]) -> None:
    """Insert a `row` with the values of all columns into `table`, by `connection`."""
    marks = ", ".join("?" * len(table.c))
    names = ", ".join(column.name for column in table.c)
    connection.exec_driver_sql(f"INSERT INTO main.{table.name} ({names}) VALUES ({marks})", tuple(row))


def repair_list(
    connection: Connection, table: Table, copied: bool, restored: list[str], lost: list[str]
) -> bool:
    """Restore the damaged entries of a list, and delete those that the copy does not have; return if it has all.

    Parameters
    ----------
    connection : Connection
    table : Table
        One of `schema.LISTS`.
    copied : bool
        Whether there is a copy.
    restored, lost : list of str
        Lines are added.
    """
    (key,) = table.primary_key
    columns, differs = f"CAST({key.name} AS BLOB), {COLUMN}", f"{COLUMN} IS NOT {checksum_sql(table)}"
    query = f"SELECT {columns} FROM main.{table.name} WHERE {differs}"
    damaged = connection.exec_driver_sql(query).all()
    found = 0
    for stored, checksum in damaged:
        original = _listed_in_copy(connection, table, stored, checksum) if copied else None
        connection.exec_driver_sql(
            f"DELETE FROM main.{table.name} WHERE CAST({key.name} AS BLOB) = ?", (stored,)
        )
        if original is not None:
            insert_row(connection, table, original)
            found += 1
    if found:
        restored.append(f"{found} entries of {CONTENT[table.name]} {SOURCE}")
    if len(damaged) > found:
        lost.append(f"{len(damaged) - found} entries of {CONTENT[table.name]}")
    return len(damaged) == found


def _listed_in_copy(connection: Connection, table: Table, stored: bytes, checksum: int) -> Any:
    """Return the entry with this checksum, or with this key where only the checksum is damaged."""
    (key,) = table.primary_key
    names = ", ".join(f"g.{column.name}" for column in table.c)
    others = " AND ".join(
        f"g.{column.name} IS m.{column.name}" for column in table.c if column.name != COLUMN
    )
    query = f"""
        SELECT {names} FROM good.{table.name} AS g WHERE g.{COLUMN} = {checksum_sql(table, "g.")} AND (
            g.{COLUMN} = ? OR EXISTS (
                SELECT 1 FROM main.{table.name} AS m WHERE CAST(m.{key.name} AS BLOB) = ? AND {others}))"""
    return connection.exec_driver_sql(query, (checksum, stored)).first()


def restore_missing(
    connection: Connection,
    table: Table,
    copied: bool,
    total: int | None,
    restored: list[str],
    lost: list[str],
) -> None:
    """Restore the rows that a table has lost, if those that only the copy has make up its sum of checksums.

    Parameters
    ----------
    connection : Connection
    table : Table
        One of `schema.CHECKED`.
    copied : bool
        Whether there is a copy.
    total : int, optional
        Sum that the database kept.
    restored, lost : list of str
        Lines are added.
    """
    missing = None if total is None else total - current_total(connection, table)
    if missing == 0 or _has_damaged(connection, table):
        return
    rows = _only_in_copy(connection, table) if copied else []
    if missing is None or sum(row.checksum for row in rows) != missing:
        lost.append(f"missing rows of {CONTENT[table.name]}")
        return
    for row in rows:
        insert_row(connection, table, row)
    restored.append(f"{len(rows)} missing rows of {CONTENT[table.name]} {SOURCE}")


def restore_vectors(connection: Connection, restored: list[str]) -> None:
    """Restore the vectors of images that have none, and add a line to `restored`."""
    rows = _only_in_copy(connection, vectors, f"AND {SAME_IMAGE}")
    for row in rows:
        insert_row(connection, vectors, row)
    if rows:
        restored.append(f"{len(rows)} missing rows of vectors {SOURCE}")


def _has_damaged(connection: Connection, table: Table) -> bool:
    query = f"SELECT 1 FROM main.{table.name} WHERE {COLUMN} IS NOT {checksum_sql(table)} LIMIT 1"
    return connection.exec_driver_sql(query).first() is not None


def _only_in_copy(connection: Connection, table: Table, also: str = "") -> list[Any]:
    names = ", ".join(f"g.{column.name}" for column in table.c)
    same = " AND ".join(f"m.{column.name} = g.{column.name}" for column in table.primary_key)
    query = f"""
        SELECT {names} FROM good.{table.name} AS g WHERE g.{COLUMN} = {checksum_sql(table, "g.")}
        AND NOT EXISTS (SELECT 1 FROM main.{table.name} AS m WHERE {same}) {also}"""
    return list(connection.exec_driver_sql(query).all())


NEAR = 16  # neighbouring float32 values tried on either side of the computed one

MAX_TRIED = 100_000  # combinations of values compared with the checksum


def recover_vector(
    normalised: NDArray[np.float32],
    statistics: Standardisation,
    damaged: bytes,
    is_original: Callable[[bytes], bool],
) -> bytes:
    """Return the raw vector, float32 in little-endian order, that the snapshot's vector was computed from.

    Values of the damaged vector that normalise to the snapshot's are kept. Several raw values may normalise to the
    same one; those that the checksum confirms are the original, and else the nearest is as good for every search.

    Parameters
    ----------
    normalised : (d,) float32
        Vector of the snapshot.
    statistics : Standardisation
        Statistics that it was normalised with.
    damaged : bytes
        Vector of the database.
    is_original : callable
        Whether a vector has the checksum that was stored.
    """
    raw = _computed(normalised, statistics)
    if len(damaged) == raw.nbytes:
        stored = np.frombuffer(damaged, "<f4")
        with np.errstate(all="ignore"):
            exact = statistics.normalise(stored) == normalised
        raw[exact] = stored[exact]
    else:
        exact = np.zeros(len(raw), bool)
    choices = {
        int(position): _equivalent(normalised, statistics, raw, int(position))
        for position in np.flatnonzero(~exact)
    }
    for position, equivalent in choices.items():
        raw[position] = equivalent[0]
    if math.prod(map(len, choices.values())) <= MAX_TRIED:
        for values in itertools.product(*choices.values()):
            candidate = raw.copy()
            candidate[list(choices)] = values
            if is_original(candidate.astype("<f4").tobytes()):
                return candidate.astype("<f4").tobytes()
    return raw.astype("<f4").tobytes()


def _computed(normalised: NDArray[np.float32], statistics: Standardisation) -> NDArray[np.float32]:
    scale = np.where(statistics.scale == 0, 1, statistics.scale).astype(np.float64)  # a part of weight 0
    raw: NDArray[np.float32] = (normalised / scale + statistics.mean).astype(np.float32)
    return raw


def _equivalent(
    normalised: NDArray[np.float32], statistics: Standardisation, raw: NDArray[np.float32], position: int
) -> list[np.float32]:
    """Return raw values near the computed one that normalise to the snapshot's, the nearest first."""
    mean, scale, start = statistics.mean[position], statistics.scale[position], raw[position]
    candidates = [start]
    below = above = start
    for _ in range(NEAR):
        below, above = np.nextafter(below, np.float32(-np.inf)), np.nextafter(above, np.float32(np.inf))
        candidates += [below, above]
    equal = [value for value in candidates if np.float32(value - mean) * scale == normalised[position]]
    return equal or [start]
