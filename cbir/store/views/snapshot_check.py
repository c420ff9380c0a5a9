"""Comparison of a snapshot's vectors with those of the database, which they were computed from."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from cbir.errors import CollectionDamaged
from cbir.store.base.damage import REPAIR
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import VectorFormat
from cbir.store.base.schema import vectors
from cbir.store.base.statements import COLUMN, Statement, checksum_sql, is_postgresql
from cbir.store.safety import row_damage
from cbir.store.safety.row_damage import damaged_vectors, describe_damage, name_images
from cbir.store.snapshot import stored_snapshot
from cbir.store.snapshot.snapshot import Snapshot, open_snapshot

BLOCK = 65_536  # vectors compared at a time
SAMPLE = 128  # vectors compared when a snapshot is opened
RANGES, RANGE = 10, 1000  # of image numbers, whose vectors are compared with their checksums then
SAMPLED = Statement(
    "SELECT number, CAST(vector AS BLOB), checksum FROM vectors WHERE number IN ? ORDER BY number"
)

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]


def differing_numbers(
    snapshot: Snapshot, statistics: Statistics, raw: Vectors, numbers: Numbers
) -> list[int]:
    """Return the numbers of images whose vector in the snapshot is not their normalised vector.

    Parameters
    ----------
    snapshot : Snapshot
    statistics : Statistics
        Statistics that the snapshot was normalised with.
    raw : (n, d) float32
        Raw vectors of the database.
    numbers : (n,) int64
        Their image numbers, ascending. Images that the snapshot does not contain are left out.
    """
    differing: list[int] = []
    if not len(snapshot.ids):
        return differing
    for start in range(0, len(numbers), BLOCK):
        block = numbers[start : start + BLOCK]
        rows = np.minimum(np.searchsorted(snapshot.ids, block), len(snapshot.ids) - 1)
        inside = snapshot.ids[rows] == block
        close = statistics.is_close(snapshot.vectors[rows[inside]], raw[start : start + BLOCK][inside])
        differing += block[inside][~close].tolist()
    return differing


def open_intact_snapshot(folder: Path, connection: Connection) -> tuple[Snapshot, Statistics] | None:
    """Open the snapshot of the collection in `folder` if its checksum is right; None otherwise."""
    info = stored_snapshot.read_snapshot_info(connection, folder)
    if info is None:
        return None
    path = folder / "snapshots" / info.file
    try:
        statistics = stored_snapshot.snapshot_statistics(connection, folder, info)
        if statistics is None:
            return None
        return open_snapshot(path, info, statistics.dimensions), statistics
    except CollectionDamaged:
        return None


def describe_disagreement(connection: Connection, numbers: list[int]) -> str:
    """Describe vectors that changed although they match their checksums, as if damaged before these were stored."""
    return (
        f"the vectors of {len(numbers)} images ({name_images(connection, numbers)}) have changed since the snapshot "
        f"was written; {REPAIR}"
    )


def require_agreement(folder: Path, connection: Connection, pages: Iterable[tuple[Vectors, Numbers]]) -> None:
    """Raise CollectionDamaged if an intact snapshot of the collection contains other vectors than the database.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    connection : Connection
    pages : iterable of ((n, d) float32, (n,) int64)
        All raw vectors of the database with their image numbers, ascending.
    """
    intact = open_intact_snapshot(folder, connection)
    differing = [number for page in pages for number in differing_numbers(*intact, *page)] if intact else []
    if differing:
        raise CollectionDamaged(describe_disagreement(connection, differing))


def require_sample_agreement(
    connection: Connection,
    snapshot: Snapshot,
    statistics: Statistics,
    stored_format: VectorFormat,
) -> None:
    """Check up to 10,000 vectors of the database, and compare some with the snapshot.

    Parameters
    ----------
    connection : Connection
    snapshot : Snapshot
        The collection's snapshot.
    statistics : Statistics
        Its statistics.
    stored_format : VectorFormat
        Format of the database's vectors.

    Raises
    ------
    CollectionDamaged
        If vectors of the database are damaged, or not those of the snapshot.
    """
    if damaged := [
        number for ends in _ranges(snapshot.ids) for number in _damaged_between(connection, *ends)
    ]:
        raise CollectionDamaged(describe_damage(connection, "vectors", damaged))
    size = min(SAMPLE, len(snapshot.ids))
    sample = np.sort(np.random.default_rng().choice(snapshot.ids, size, replace=False, shuffle=False))
    rows = SAMPLED.run(connection, sample.tolist()).all()
    if damaged := damaged_vectors(rows, stored_format.size):  # also of another length
        raise CollectionDamaged(describe_damage(connection, "vectors", damaged))
    raw = stored_format.decode([row[1] for row in rows])
    numbers = np.array([row[0] for row in rows], np.int64)
    differing = differing_numbers(snapshot, statistics, raw, numbers)
    if differing:
        raise CollectionDamaged(describe_disagreement(connection, differing))


def _ranges(ids: Numbers) -> list[tuple[int, int]]:
    """Return the first and last number of random ranges; of all numbers, if there are not many."""
    if len(ids) <= RANGES * RANGE:
        return [(int(ids[0]), int(ids[-1]))] if len(ids) else []
    starts = np.random.default_rng().integers(0, len(ids) - RANGE, RANGES)
    return [(int(ids[start]), int(ids[start + RANGE - 1])) for start in starts]


def _damaged_between(connection: Connection, first: int, last: int) -> list[int]:
    if is_postgresql(connection):
        return row_damage.damaged_row_keys(connection, vectors, vectors.c.number.between(first, last))
    differs = f"{COLUMN} IS NOT {checksum_sql(vectors)}"
    query = f"SELECT number FROM vectors WHERE number BETWEEN ? AND ? AND {differs}"
    return list(connection.exec_driver_sql(query, (first, last)).scalars())
