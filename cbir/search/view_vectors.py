"""Vectors of a collection from its view: the snapshot, which FAISS searches in place, and what was added since."""

from copy import copy
from functools import cache
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.knn_graph import Graph
from cbir.gallery.numbered_graph import NumberedGraph, number_graph
from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, is_among
from cbir.hardware.device import Device
from cbir.search.index_vectors import Scale
from cbir.search.snapshot_search import SnapshotSearch
from cbir.store import Collection
from cbir.store.collection_view import View
from cbir.store.index_feed import exclusions
from cbir.store.limited_collection import LimitedCollection
from cbir.store.normalisation import Statistics
from cbir.vector_index.fixed_sample import RandomOrder, lowest
from cbir.vector_index.port import IndexScope, Neighbours, Numbers

EVERYTHING = IndexScope()
SPARE = 4  # times as many of the random order as are drawn are looked at before all images are


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
        self._order = _SharedOrder()
        self._view: View | None = None

    def over(self, limited: LimitedCollection) -> "ViewVectors":
        """Return the vectors of the images that a limited view of the collection shows."""
        vectors = copy(self)
        vectors.collection = limited
        return vectors

    def for_search(self) -> "ViewVectors":
        """Return the vectors as they are now, for the calls of one search."""
        vectors = copy(self)
        vectors._view = self.collection.view()
        vectors.rows = cache(vectors.rows)  # type: ignore[method-assign]  # of one search
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
        index = self.view.gallery.index
        return "flat" if index is None or index.precision == "single" else "flat, in half precision"

    @property
    def device(self) -> str:
        """Device that searches the snapshot."""
        return self._search.device

    def scale(self) -> Scale:
        """Return what is fitted to the whole collection."""
        gallery = self.view.gallery
        return Scale(
            self.view.generation, self.view.statistics, gallery.parts, gallery.projected, gallery.space
        )

    def rows(self, scope: IndexScope) -> Rows | None:
        """Return the rows of the view that are in a scope, ascending; None for all rows."""
        view, collection = self.view, self.collection
        matching = collection.matching_rows(view, scope.where)
        for patient in scope.of_patients:
            of_patient = collection.patient_rows(view, patient)
            matching = of_patient if matching is None else np.intersect1d(matching, of_patient)
        parts = exclusions(scope.without_patients, scope.without_contents, scope.outside)
        given = (scope.without_patients, scope.without_contents, scope.outside)
        feed = collection.index_feed()
        excluded = [feed.matching([part]) for part, values in zip(parts, given, strict=True) if values]
        return view.select(matching, view.rows_of(np.unique(np.concatenate([_NONE, *excluded]))))

    def nearest(self, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        """Return k images of `scope` for each of the `queries` (q, d), fewer only where fewer match."""
        gallery, rows = self.view.gallery, self.rows(scope)
        return [self._nearest(gallery, query, k, rows) for query in queries]

    def _nearest(self, gallery: Gallery, query: Floats, k: int, rows: Rows | None) -> Neighbours:
        """Return the k nearest of some rows, ascending, or of all: of the index and of those added since."""
        indexed = 0 if gallery.index is None else len(gallery.index)
        found, allowed, added = _NONE, None, np.arange(indexed, len(gallery))
        if rows is not None:
            first = int(np.searchsorted(rows, indexed))
            allowed, added = (None if first == indexed else rows[:first]), rows[first:]
        if indexed:
            found = self._search.nearest(gallery, query, k, allowed)
        found = np.concatenate([found, added])
        distances = gallery.distances(query, found)
        best = top_k(-distances, k)
        return Neighbours(gallery.ids[found[best]], distances[best])

    def graph(self) -> NumberedGraph | None:
        """Return the k-NN graph of the snapshot; None without one."""
        view = self.view
        if view.snapshot is None or view.gallery.neighbourhood is None:
            return None
        graph, _ = view.gallery.neighbourhood.covering(VectorBlocks((view.snapshot.vectors,)))
        return _numbered(graph, view.gallery)

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return those of `numbers` that are not deleted, ascending, and their vectors (n, d)."""
        rows = self._rows_within(numbers, EVERYTHING)
        return self.view.gallery.ids[rows], self.view.gallery.vectors(rows)

    def sample(self, count: int, scope: IndexScope) -> tuple[Numbers, Floats]:
        """Return a fixed random sample of `scope`: numbers, ascending, and vectors; all where fewer match."""
        ids = self.view.gallery.ids
        rows = self.rows(scope)
        total = len(ids) if rows is None else len(rows)
        first = self._order.upto(int(ids[-1]) if len(ids) else 0)
        wanted = min(len(first), SPARE * count * max(len(ids), 1) // max(total, 1))
        drawn = self._rows_within(first[:wanted], scope, ascending=False)
        if len(drawn) < min(count, total):
            numbers = ids if rows is None else ids[rows]
            drawn = np.searchsorted(ids, lowest(numbers, count))
        drawn = np.sort(drawn[:count])
        return ids[drawn], self.view.gallery.vectors(drawn)

    def within(self, numbers: Numbers, scope: IndexScope) -> Numbers:
        """Return those of `numbers` that are in `scope`, ascending."""
        return self.view.gallery.ids[self._rows_within(numbers, scope)]

    def count(self, scope: IndexScope) -> int:
        """Return how many images are in `scope`."""
        rows = self.rows(scope)
        return len(self.view.gallery) if rows is None else len(rows)

    def _rows_within(self, numbers: Numbers, scope: IndexScope, ascending: bool = True) -> Rows:
        """Return the rows of those of the numbers that are in a scope, in the order of the numbers or ascending."""
        ids, allowed = self.view.gallery.ids, self.rows(scope)
        numbers = np.unique(numbers) if ascending else numbers
        rows = np.searchsorted(ids, numbers[is_among(numbers, ids)])
        return rows if allowed is None else rows[is_among(rows, allowed)]


_NONE = np.empty(0, np.int64)


class _SharedOrder:
    """Random order of the images, shared by all views of a collection; thread-safe."""

    def __init__(self) -> None:
        self._lock, self._order = Lock(), RandomOrder()

    def upto(self, last: int) -> Numbers:
        with self._lock:
            return self._order.upto(last)


_graphs: WeakKeyDictionary[Graph, NumberedGraph] = WeakKeyDictionary()


def _numbered(graph: Graph, gallery: Gallery) -> NumberedGraph:
    """Return the graph of the first rows of a gallery by their numbers, made once for each graph."""
    numbered = _graphs.get(graph)
    if numbered is None:
        _graphs[graph] = numbered = number_graph(gallery.ids[: len(graph)], graph, gallery.space)
    return numbered
