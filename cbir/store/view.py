"""A collection as a query sees it: the vectors of one generation, normalised and ready to compare."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from cbir import descriptors
from cbir.gallery.gallery import Gallery, Rows
from cbir.gallery.live_graph import Neighbourhood
from cbir.store import snapshot as snapshots
from cbir.store import statistics
from cbir.store.filters import Condition
from cbir.store.profile import Profile
from cbir.store.schema import images, tombstones, vectors
from cbir.store.statistics import Statistics


@dataclass(frozen=True, eq=False)
class View:
    """The images of one generation.

    gallery: normalised vectors; the first block is the mapped snapshot, the second what came after it.
    rows: ascending rows of the images that are not deleted, None where none is.
    statistics: they normalise a query as they normalised the gallery.
    snapshot: what the first block views; None where there is no usable snapshot.
    """

    generation: int
    gallery: Gallery
    rows: Rows | None
    statistics: Statistics
    snapshot: snapshots.Snapshot | None
    snapshot_generation: int | None

    def __len__(self) -> int:
        return len(self.gallery) if self.rows is None else len(self.rows)

    def rows_of(self, numbers: NDArray[np.int64]) -> Rows:
        """Rows of image numbers, ascending; numbers this view does not have are passed over."""
        numbers = np.sort(numbers)
        places = np.searchsorted(self.gallery.ids, numbers)
        inside = places < len(self.gallery)
        return places[inside][self.gallery.ids[places[inside]] == numbers[inside]]

    def select(self, matching: Rows | None, without: Rows) -> Rows | None:
        """Rows to search: live, among `matching` (None: all), and not in `without`; None means every row."""
        if self.rows is None and matching is None and not len(without):
            return None
        chosen = np.ones(len(self.gallery), bool) if matching is None else np.zeros(len(self.gallery), bool)
        if matching is not None:
            chosen[matching] = True
        if self.rows is not None:
            alive = np.zeros(len(self.gallery), bool)
            alive[self.rows] = True
            chosen &= alive
        chosen[without] = False
        return np.flatnonzero(chosen)


def matching_numbers(connection: Connection, conditions: Iterable[Condition]) -> NDArray[np.int64]:
    """Numbers of the images for which every condition holds, ascending."""
    query = select(images.c.number).where(*(condition.matches() for condition in conditions))
    return np.fromiter(connection.scalars(query.order_by(images.c.number)), np.int64)


def load_vectors(
    connection: Connection, after: int, dimensions: int, into: NDArray[np.float32] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Raw vectors (n, d) float32 and numbers (n,) int64 of all images numbered above `after`, ascending.

    `into`, where given, is the (n, d) storage to fill.
    """
    above = vectors.c.number > after
    count = connection.scalar(select(func.count()).select_from(vectors).where(above)) or 0
    matrix = np.empty((count, dimensions), np.float32) if into is None else into
    numbers = np.empty(count, np.int64)
    rows = connection.execution_options(yield_per=4096).execute(
        select(vectors.c.number, vectors.c.vector).where(above).order_by(vectors.c.number)
    )
    done = 0
    for part in rows.partitions():
        stop = done + len(part)
        numbers[done:stop] = [number for number, _ in part]
        matrix[done:stop] = np.frombuffer(b"".join(vector for _, vector in part), "<f4").reshape(
            -1, dimensions
        )
        done = stop
    return matrix, numbers


def build(
    connection: Connection,
    profile: Profile,
    fitted: Statistics | None,
    generation: int,
    opened: tuple[snapshots.Snapshot, snapshots.SnapshotInfo] | None,
    previous: View | None,
    neighbourhood: Neighbourhood | None = None,
) -> View:
    """The view of the generation that `connection`'s transaction sees.

    opened: the current snapshot, None where there is none. fitted: None where no indexing run has ended yet;
    statistics are then fitted to what is there. previous: an older view, whose second block is reused where it
    stands on the same snapshot. neighbourhood: of the snapshot, where it has one.
    """
    snapshot, info = opened or (None, None)
    size = dimensions(profile)
    tail, tail_ids = np.empty((0, size), np.float32), np.empty(0, np.int64)
    last = info.last_number if info else 0
    if fitted and previous and snapshot is not None and previous.snapshot is snapshot:
        tail_ids = previous.gallery.ids[len(snapshot.ids) :]
        if len(tail_ids):
            tail, last = previous.gallery.blocks[-1], int(tail_ids[-1])
    raw, numbers = load_vectors(connection, last, size)
    fitted = fitted or statistics.fit(raw, profile)
    if len(numbers):
        fitted.normalise(raw, out=raw)
        tail = np.concatenate([tail, raw]) if len(tail) else raw
        tail_ids = np.concatenate([tail_ids, numbers])
    if snapshot is None or not len(snapshot.ids):
        gallery = Gallery((tail,), tail_ids, parts(profile))
    elif not len(tail):
        gallery = Gallery((snapshot.vectors,), snapshot.ids, parts(profile), neighbourhood)
    else:
        ids = np.concatenate([snapshot.ids, tail_ids])
        gallery = Gallery((snapshot.vectors, tail), ids, parts(profile), neighbourhood)
    buried = np.fromiter(connection.scalars(select(tombstones.c.number)), np.int64)
    rows = None
    if len(buried):
        rows = np.flatnonzero(~np.isin(gallery.ids, buried))
        rows = None if len(rows) == len(gallery) else rows
    return View(generation, gallery, rows, fitted, snapshot, info.generation if info else None)


def parts(profile: Profile) -> tuple[tuple[int, int], ...]:
    """Start and stop of each part of a vector of that profile."""
    return tuple((part.start, part.stop) for part in descriptors.get(profile.descriptor).parts)


def dimensions(profile: Profile) -> int:
    """The length of a vector of that profile."""
    return descriptors.get(profile.descriptor).dimensions
