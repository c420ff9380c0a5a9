"""Vectors of a collection from its view: the snapshot, which FAISS searches in place, and what was added since."""

from collections.abc import Callable
from copy import copy
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.flat_index import FlatIndex
from cbir.gallery.gallery import Gallery, top_k
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.numbered_graph import NumberedGraph, number_graph
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, is_among, positions_among, table_of, union
from cbir.search.snapshot_search import SnapshotSearch
from cbir.store import Collection
from cbir.store.base.normalisation import Statistics
from cbir.store.index.port import IndexScope, Neighbours, Numbers
from cbir.store.index.scope_numbers import RandomOrder, lowest
from cbir.store.limited_collection import LimitedCollection
from cbir.store.views.collection_view import View
from cbir.store.views.index_feed import exclusions
from cbir.system.device import Device
from cbir.system.threads import cores, for_each, release_memory

EVERYTHING = IndexScope()
SPARE = 2  # times as many of the random order as are drawn are looked at before all images are
LEFT_OUT = 256  # images drawn besides, in place of those that most scopes leave out
_NONE = np.empty(0, np.int64)
T = TypeVar("T")


class ViewVectors:
    """Vectors of the images that a collection's view has. Thread-safe.

    Parameters
    ----------
    collection : Collection
        Collection to search.
    device : "auto", "cpu" or "cuda"
        Device that searches the snapshot.
    """

    def __init__(self, collection: Collection, device: Device = "cpu") -> None:
        self.collection = collection
        self._search = SnapshotSearch(collection.folder, device)
        self._samples = _Samples()
        self._view: View | None = None
        self._known_rows: dict[IndexScope, Rows | None] | None = None  # of one search
        self._known_tables: dict[IndexScope, NDArray[np.bool_]] = {}

    def over(self, limited: LimitedCollection) -> "ViewVectors":
        """Return the vectors of the images that a limited view of the collection shows."""
        vectors = copy(self)
        vectors.collection = limited
        return vectors

    def for_search(self) -> "ViewVectors":
        """Return the vectors as they are now, for the calls of one search."""
        vectors = copy(self)
        vectors._view, vectors._known_rows, vectors._known_tables = self.collection.view(), {}, {}
        return vectors

    @property
    def view(self) -> View:
        """View that is searched."""
        return self.collection.view() if self._view is None else self._view

    @property
    def statistics(self) -> Statistics:
        """Statistics that normalise a query."""
        return self.view.statistics

    def __len__(self) -> int:
        return len(self.view)

    def generation(self) -> int:
        """Return the generation of the collection."""
        return self.view.generation

    @property
    def index_name(self) -> str:
        """Name of the index that searches."""
        index = self.view.gallery.flat_index
        return FlatIndex.name if index is None else index.name

    @property
    def device(self) -> str:
        """Device that searches the snapshot."""
        return self._search.device

    def rows(self, scope: IndexScope) -> Rows | None:
        """Return the rows of the view that are in a scope, ascending; None for all rows."""
        if self._known_rows is None:
            return self._select(scope)
        if scope not in self._known_rows:
            self._known_rows[scope] = self._select(scope)
        return self._known_rows[scope]

    def _select(self, scope: IndexScope) -> Rows | None:
        view, collection = self.view, self.collection
        matching = collection.matching_rows(view, scope.where)
        for patient in scope.of_patients:
            of_patient = collection.patient_rows(view, patient)
            matching = of_patient if matching is None else np.intersect1d(matching, of_patient)
        parts = exclusions(scope.without_patients, scope.without_contents, scope.outside)
        conditions = (scope.without_patients, scope.without_contents, scope.outside)
        feed = collection.index_feed()
        excluded = [feed.matching([part]) for part, values in zip(parts, conditions, strict=True) if values]
        return view.select(matching, view.rows_of(union(*excluded)))

    def nearest(self, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        """Return k images of `scope` for each of the `queries` (q, d), fewer only where fewer match."""
        gallery, rows = self.view.gallery, self.rows(scope)
        allowed, added = _parts(gallery, rows)

        def search(query: Floats) -> Neighbours:
            indexed = self._search.nearest(gallery, query, k, allowed) if gallery.flat_index else _NONE
            return _best(gallery, query, np.concatenate([indexed, added]), k)

        return _of_each(queries, search)

    def nearest_around(
        self, queries: Floats, k: int, scope: IndexScope, around: int
    ) -> tuple[list[Neighbours], Numbers]:
        """Return what `nearest` does, and the ascending numbers of images of any scope that are nearest to a query.

        queries, k, scope: as of `nearest`. around: number of images of any scope for each query.
        """
        gallery, rows = self.view.gallery, self.rows(scope)
        allowed, added = _parts(gallery, rows)
        visible, all_added = _parts(gallery, self.rows(EVERYTHING))

        def search(query: Floats) -> tuple[Neighbours, Numbers]:
            inside = near = _NONE
            if gallery.flat_index:
                inside, near = self._search.nearest_both(gallery, query, k, allowed, around, visible)
            neighbours = _best(gallery, query, np.concatenate([inside, added]), k)
            return neighbours, _best(gallery, query, np.concatenate([near, all_added]), around).numbers

        answers = _of_each(queries, search)
        return [neighbours for neighbours, _ in answers], union(*(numbers for _, numbers in answers))

    def graph(self) -> NumberedGraph | None:
        """Return the k-NN graph of the snapshot; None without one."""
        snapshot, neighbourhood = self.view.snapshot, self.view.gallery.neighbourhood
        if snapshot is None or neighbourhood is None:
            return None
        numbered = _graphs.get(neighbourhood)
        if numbered is None:
            graph, _ = neighbourhood.covering(VectorBlocks((snapshot.vectors,)))
            graph = graph.beginning(len(snapshot.ids))  # whole lists may have extended it
            _graphs[neighbourhood] = numbered = number_graph(snapshot.ids, graph, neighbourhood.space)
            release_memory()  # building it took several times as much
        return numbered

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return those of `numbers` that are not deleted, ascending, and their vectors (n, d)."""
        rows = self._rows_within(numbers, EVERYTHING)
        return self.view.gallery.ids[rows], self.view.gallery.vectors(rows)

    def sample(self, count: int, scope: IndexScope) -> tuple[Numbers, Floats]:
        """Return a fixed random sample of `scope`: numbers, ascending, and vectors; all where fewer match."""
        view, rows = self.view, self.rows(scope)
        total = len(view.gallery) if rows is None else len(rows)
        sampled, vectors = self._samples.of_view(view, count + LEFT_OUT)
        inside = np.flatnonzero(self._allows(sampled, scope))
        if len(inside) < min(count, total):  # a narrow scope
            sampled = np.sort(_draw(view, rows, count, self._samples.order))
            return view.gallery.ids[sampled], view.gallery.vectors(sampled)
        inside = inside[:count]
        inside = inside[np.argsort(sampled[inside])]
        return view.gallery.ids[sampled[inside]], vectors[inside]

    def within(self, numbers: Numbers, scope: IndexScope) -> Numbers:
        """Return those of `numbers` that are in `scope`, ascending."""
        return self.view.gallery.ids[self._rows_within(numbers, scope)]

    def count(self, scope: IndexScope) -> int:
        """Return how many images are in `scope`."""
        rows = self.rows(scope)
        return len(self.view.gallery) if rows is None else len(rows)

    def _rows_within(self, numbers: Numbers, scope: IndexScope) -> Rows:
        """Return the rows of those of the numbers that are in a scope, ascending."""
        rows = self.view.rows_of(union(numbers))
        return rows[self._allows(rows, scope)]

    def _allows(self, rows: Rows, scope: IndexScope) -> NDArray[np.bool_]:
        """Return whether each of some rows is in a scope."""
        allowed = self.rows(scope)
        if allowed is None:
            return np.ones(len(rows), bool)
        if self._known_rows is None:
            return is_among(rows, allowed)
        if scope not in self._known_tables:
            self._known_tables[scope] = table_of(allowed, len(self.view.gallery))
        return self._known_tables[scope][rows]


_graphs: WeakKeyDictionary[Neighbourhood, NumberedGraph] = WeakKeyDictionary()


class _Samples:
    """Random samples of views, the same in every process. Thread-safe."""

    def __init__(self) -> None:
        self.order, self._lock = RandomOrder(), Lock()
        self._latest: WeakKeyDictionary[View, tuple[int, Rows, Floats]] = WeakKeyDictionary()

    def of_view(self, view: View, count: int) -> tuple[Rows, Floats]:
        """Return the first rows of a view in the random order, and their vectors, from memory."""
        with self._lock:
            latest = self._latest.get(view)
            if latest is None or latest[0] != count:
                rows = _draw(view, view.rows, count, self.order)
                latest = self._latest[view] = count, rows, view.gallery.vectors(rows)
        return latest[1], latest[2]


def _parts(gallery: Gallery, rows: Rows | None) -> tuple[Rows | None, Rows]:
    """Return those of some rows, or of all, that the index of a gallery has (None: all of its), and the others."""
    indexed = 0 if gallery.flat_index is None else len(gallery.flat_index)
    if rows is None:
        return None, np.arange(indexed, len(gallery))
    first = int(np.searchsorted(rows, indexed))
    return None if first == indexed else rows[:first], rows[first:]


def _best(gallery: Gallery, query: Floats, rows: Rows, k: int) -> Neighbours:
    distances = gallery.distances(query, rows)
    best = top_k(-distances, k)
    return Neighbours(gallery.ids[rows[best]], distances[best])


def _of_each(queries: Floats, search: Callable[[Floats], T]) -> list[T]:
    """Return what a search finds for each of the `queries` (q, d), on several cores."""
    answers: dict[int, T] = {}

    def work(where: slice, query: Floats) -> None:
        answers[where.start] = search(query)

    slices = (slice(number, number + 1) for number in range(len(queries)))
    for_each(zip(slices, queries, strict=True), work, min(cores(), len(queries)))
    return [answers[number] for number in range(len(queries))]


def _draw(view: View, rows: Rows | None, count: int, order: RandomOrder) -> Rows:
    """Return the `count` of some rows, ascending, that come first in a random order, in this order; None: of all."""
    ids = view.gallery.ids
    total = len(ids) if rows is None else len(rows)
    numbers = order.upto(int(ids[-1]) if len(ids) else 0)
    sampled, _ = positions_among(numbers[: SPARE * count * len(ids) // max(total, 1)], ids)
    sampled = sampled if rows is None else sampled[table_of(rows, len(ids))[sampled]]
    if len(sampled) < min(count, total):
        sampled = np.searchsorted(ids, lowest(ids if rows is None else ids[rows], count))
    return np.asarray(sampled[:count])
