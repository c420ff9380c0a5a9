"""View of a collection for queries: the vectors of one generation, normalised and ready to compare."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, LargeBinary, cast, func, select

from cbir.errors import CollectionDamaged, NotFound
from cbir.gallery.code_index import CodeIndex
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import Floats, Rows, positions_among
from cbir.store.base import metadata, normalisation
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import Profile, VectorFormat, vector_format
from cbir.store.base.schema import vectors
from cbir.store.records.filter_conditions import Condition
from cbir.store.safety.row_damage import (
    damaged_vectors,
    describe_damage,
    describe_not_finite,
    vectors_not_finite,
)
from cbir.store.snapshot.snapshot import Snapshot, SnapshotInfo
from cbir.store.snapshot.stored_snapshot import deleted_numbers

KEPT = 8  # filters

BYTES = 32 * 2**20  # of all filters but the last; one that half of a million images pass has 4 MB

Conditions = tuple[Condition, ...]


class FilterCache:
    """Rows of one view by the conditions that they fulfil, the last few. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: OrderedDict[Conditions, Rows] = OrderedDict()

    def rows(self, conditions: Conditions, read: Callable[[], Rows]) -> Rows:
        """Return the rows of `conditions`; `read` reads them where they are not kept."""
        with self._lock:
            if conditions in self._rows:
                self._rows.move_to_end(conditions)
                return self._rows[conditions]
        rows = read()
        rows.flags.writeable = False
        with self._lock:
            self._rows[conditions] = rows
            while len(self._rows) > KEPT or (len(self._rows) > 1 and self._size() > BYTES):
                self._rows.popitem(last=False)
        return rows

    def _size(self) -> int:
        return sum(rows.nbytes for rows in self._rows.values())


PAGE = 4096  # vectors read from the database at a time


@dataclass(frozen=True, eq=False)
class View:
    """Images of one generation.

    gallery: normalised vectors; the first block is the mapped snapshot, the second the images added since.
    rows: ascending rows of the images that are not deleted, None if none is deleted.
    statistics: normalise a query as they normalised the gallery.
    snapshot: what the first block views; None without a usable snapshot.
    auto: text of the re-ranker that `auto` stands for; None if none was chosen.
    """

    generation: int
    gallery: Gallery
    rows: Rows | None
    statistics: Statistics
    snapshot: Snapshot | None
    snapshot_generation: int | None
    auto: str | None = None

    @cached_property
    def filtered(self) -> FilterCache:
        """Rows of the filters used last."""
        return FilterCache()

    def __len__(self) -> int:
        return len(self.gallery) if self.rows is None else len(self.rows)

    def rows_of(self, numbers: NDArray[np.int64]) -> Rows:
        """Return the rows of image numbers, ascending; numbers that are not in this view are left out."""
        return positions_among(np.sort(numbers), self.gallery.ids)[0]

    def select(self, matching: Rows | None, excluded: Rows) -> Rows | None:
        """Return the rows to search: not deleted, in `matching` (None: all) and not `excluded`; None for all rows."""
        if self.rows is None and not len(excluded):
            return matching
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
    stored_format: VectorFormat,
    into: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Load the raw vectors of images.

    Parameters
    ----------
    connection : Connection
    after : int
        Only images with larger numbers.
    stored_format : VectorFormat
        Format of vectors of d values.
    into : (n, d) float32, optional
        Array to fill.

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
    matrix = np.empty((count, stored_format.dimensions), np.float32) if into is None else into
    numbers = np.empty(count, np.int64)
    start = 0
    for block, block_numbers in vector_pages(connection, after, stored_format):
        stop = start + len(block)
        matrix[start:stop], numbers[start:stop] = block, block_numbers
        start = stop
    return matrix, numbers


def vectors_of(
    connection: Connection, numbers: NDArray[np.int64], stored_format: VectorFormat
) -> NDArray[np.float32]:
    """Load the raw vectors (n, d) of images by their numbers (n,), which are distinct and in any order.

    All vectors of the collection are checked; see `load_vectors`. Raises NotFound if an image has none.
    """
    order = np.argsort(numbers)
    ascending = numbers[order]
    matrix = np.empty((len(numbers), stored_format.dimensions), np.float32)
    missing = len(numbers)
    for block, block_numbers in vector_pages(connection, 0, stored_format):
        inside = np.isin(block_numbers, ascending)
        matrix[order[np.searchsorted(ascending, block_numbers[inside])]] = block[inside]
        missing -= int(np.count_nonzero(inside))
    if missing:
        raise NotFound(f"{missing} of the images have been deleted meanwhile; run the command again")
    return matrix


def vector_pages(
    connection: Connection, after: int, stored_format: VectorFormat, *, require_finite: bool = True
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Yield the raw vectors of images with numbers above `after`, a few thousand at a time; see `load_vectors`."""
    columns = vectors.c.number, cast(vectors.c.vector, LargeBinary), vectors.c.checksum
    rows = connection.execution_options(yield_per=PAGE).execute(
        select(*columns).where(vectors.c.number > after).order_by(vectors.c.number)
    )
    damaged, not_finite = list[int](), list[int]()
    for page in rows.partitions():
        damaged += damaged_vectors(page, stored_format.size)
        if not damaged:
            numbers = np.array([row[0] for row in page], np.int64)
            raw = stored_format.decode([row[1] for row in page])
            not_finite += numbers[vectors_not_finite(raw)].tolist()
            yield raw, numbers
    if damaged:
        raise CollectionDamaged(describe_damage(connection, "vectors", damaged))
    if not_finite and require_finite:
        raise CollectionDamaged(describe_not_finite(connection, not_finite))


def build_view(
    connection: Connection,
    profile: Profile,
    statistics: Statistics | None,
    generation: int,
    opened: tuple[Snapshot, SnapshotInfo] | None,
    previous: View | None,
    neighbourhood: Neighbourhood | None = None,
    codes: CodeIndex | None = None,
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
    codes : CodeIndex, optional
        Codes of the snapshot's vectors.
    """
    snapshot, info = opened or (None, None)
    tail, tail_ids = np.empty((0, 0), np.float32), np.empty(0, np.int64)
    last = info.last_number if info else 0
    if statistics and previous and snapshot is not None and previous.snapshot is snapshot:
        tail_ids = previous.gallery.ids[len(snapshot.ids) :]
        if len(tail_ids):
            tail, last = previous.gallery.blocks[-1], int(tail_ids[-1])
    raw, numbers = load_vectors(connection, last, vector_format(profile))
    statistics = statistics or normalisation.fit_statistics(raw, profile)
    added = statistics.normalise(raw, overwrite=True)
    if not len(tail_ids):
        tail = added
    elif len(numbers):
        tail = np.concatenate([tail, added])
    tail_ids = np.concatenate([tail_ids, numbers])
    parts = normalisation.part_bounds(profile, statistics)
    if snapshot is None or not len(snapshot.ids):
        gallery = Gallery((tail,), tail_ids, parts, projected=profile.is_projected)
    else:
        blocks: tuple[Floats, ...] = (snapshot.vectors,)
        ids = snapshot.ids
        if len(tail):
            blocks, ids = (snapshot.vectors, tail), np.concatenate([ids, tail_ids])
        gallery = Gallery(
            blocks, ids, parts, neighbourhood, profile.is_projected, codes or snapshot.flat_index
        )
    deleted = deleted_numbers(connection, info)
    rows = None
    if len(deleted):
        rows = np.flatnonzero(~np.isin(gallery.ids, deleted))
        rows = None if len(rows) == len(gallery) else rows
    try:
        auto = metadata.find_value(connection, metadata.AUTO)
    except CollectionDamaged:  # `verify` reports it; searches need no choice
        auto = None
    return View(generation, gallery, rows, statistics, snapshot, info.generation if info else None, auto)
