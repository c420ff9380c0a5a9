"""View of a collection for queries: the vectors of one generation, normalised and ready to compare."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, LargeBinary, cast, func, select

from cbir import descriptors
from cbir.errors import CollectionDamaged
from cbir.gallery.gallery import Gallery
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.vector_blocks import Rows
from cbir.store import normalisation
from cbir.store.normalisation import Statistics
from cbir.store.profile import Profile
from cbir.store.row_damage import (
    damaged_vectors,
    describe_damage,
    describe_not_finite,
    vectors_not_finite,
)
from cbir.store.schema import tombstones, vectors
from cbir.store.snapshot import Snapshot, SnapshotInfo


@dataclass(frozen=True, eq=False)
class View:
    """Images of one generation.

    gallery: normalised vectors; the first block is the mapped snapshot, the second the images added since.
    rows: ascending rows of the images that are not deleted, None if none is deleted.
    statistics: normalise a query as they normalised the gallery.
    snapshot: what the first block views; None without a usable snapshot.
    """

    generation: int
    gallery: Gallery
    rows: Rows | None
    statistics: Statistics
    snapshot: Snapshot | None
    snapshot_generation: int | None

    def __len__(self) -> int:
        return len(self.gallery) if self.rows is None else len(self.rows)

    def rows_of(self, numbers: NDArray[np.int64]) -> Rows:
        """Return the rows of image numbers, ascending; numbers that are not in this view are left out."""
        numbers = np.sort(numbers)
        rows = np.searchsorted(self.gallery.ids, numbers)
        inside = rows < len(self.gallery)
        candidates = rows[inside]
        present: Rows = candidates[self.gallery.ids[candidates] == numbers[inside]]
        return present

    def select(self, matching: Rows | None, excluded: Rows) -> Rows | None:
        """Return the rows to search: not deleted, in `matching` (None: all) and not `excluded`; None for all rows."""
        if self.rows is None and matching is None and not len(excluded):
            return None
        mask = np.ones(len(self.gallery), bool) if matching is None else np.zeros(len(self.gallery), bool)
        if matching is not None:
            mask[matching] = True
        if self.rows is not None:
            alive = np.zeros(len(self.gallery), bool)
            alive[self.rows] = True
            mask &= alive
        mask[excluded] = False
        return np.flatnonzero(mask)


def load_vectors(
    connection: Connection,
    after: int,
    dimensions: int,
    into: NDArray[np.float32] | None = None,
    *,
    require_finite: bool = True,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Load the raw vectors of images.

    Parameters
    ----------
    connection : Connection
    after : int
        Only images with larger numbers.
    dimensions : int
        Length d of a vector.
    into : (n, d) float32, optional
        Array to fill.
    require_finite : bool
        Refuse vectors that no distance can be computed from.

    Returns
    -------
    vectors : (n, d) float32
    numbers : (n,) int64
        Image numbers, ascending.

    Raises
    ------
    CollectionDamaged
        If a vector does not match its checksum or contains values that are not finite; names the images.
    """
    above = vectors.c.number > after
    count = connection.scalar(select(func.count()).select_from(vectors).where(above)) or 0
    matrix = np.empty((count, dimensions), np.float32) if into is None else into
    numbers = np.empty(count, np.int64)
    columns = vectors.c.number, cast(vectors.c.vector, LargeBinary), vectors.c.checksum
    rows = connection.execution_options(yield_per=4096).execute(
        select(*columns).where(above).order_by(vectors.c.number)
    )
    start = 0
    damaged, not_finite = list[int](), list[int]()
    for part in rows.partitions():
        stop = start + len(part)
        numbers[start:stop] = [row[0] for row in part]
        damaged += damaged_vectors(part, dimensions)
        if not damaged:
            matrix[start:stop] = np.frombuffer(b"".join([row[1] for row in part]), "<f4").reshape(
                -1, dimensions
            )
            not_finite += numbers[start:stop][vectors_not_finite(matrix[start:stop])].tolist()
        start = stop
    if damaged:
        raise CollectionDamaged(describe_damage(connection, "vectors", damaged))
    if not_finite and require_finite:
        raise CollectionDamaged(describe_not_finite(connection, not_finite))
    return matrix, numbers


def build_view(
    connection: Connection,
    profile: Profile,
    statistics: Statistics | None,
    generation: int,
    opened: tuple[Snapshot, SnapshotInfo] | None,
    previous: View | None,
    neighbourhood: Neighbourhood | None = None,
) -> View:
    """Build the view of the generation that the connection's transaction sees.

    Parameters
    ----------
    connection : Connection
    profile : Profile
        Profile of the collection.
    statistics : Statistics, optional
        None until an indexing run has ended; then statistics are fitted to the images of the view.
    generation : int
        The generation.
    opened : (Snapshot, SnapshotInfo), optional
        Current snapshot.
    previous : View, optional
        Older view; its second block is reused if it has the same snapshot.
    neighbourhood : Neighbourhood, optional
        k-NN graph of the snapshot.
    """
    snapshot, info = opened or (None, None)
    size = vector_length(profile)
    tail, tail_ids = np.empty((0, size), np.float32), np.empty(0, np.int64)
    last = info.last_number if info else 0
    if statistics and previous and snapshot is not None and previous.snapshot is snapshot:
        tail_ids = previous.gallery.ids[len(snapshot.ids) :]
        if len(tail_ids):
            tail, last = previous.gallery.blocks[-1], int(tail_ids[-1])
    raw, numbers = load_vectors(connection, last, size)
    statistics = statistics or normalisation.fit_statistics(raw, profile)
    if len(numbers):
        statistics.normalise(raw, out=raw)
        tail = np.concatenate([tail, raw]) if len(tail) else raw
        tail_ids = np.concatenate([tail_ids, numbers])
    if snapshot is None or not len(snapshot.ids):
        gallery = Gallery((tail,), tail_ids, part_bounds(profile))
    elif not len(tail):
        gallery = Gallery((snapshot.vectors,), snapshot.ids, part_bounds(profile), neighbourhood)
    else:
        ids = np.concatenate([snapshot.ids, tail_ids])
        gallery = Gallery((snapshot.vectors, tail), ids, part_bounds(profile), neighbourhood)
    deleted = np.fromiter(connection.scalars(select(tombstones.c.number)), np.int64)
    rows = None
    if len(deleted):
        rows = np.flatnonzero(~np.isin(gallery.ids, deleted))
        rows = None if len(rows) == len(gallery) else rows
    return View(generation, gallery, rows, statistics, snapshot, info.generation if info else None)


def part_bounds(profile: Profile) -> tuple[tuple[int, int], ...]:
    """Return start and stop of each part of a vector of this profile."""
    return tuple((part.start, part.stop) for part in descriptors.get(profile.descriptor).parts)


def vector_length(profile: Profile) -> int:
    """Return the length of a vector of this profile."""
    return descriptors.get(profile.descriptor).dimensions
