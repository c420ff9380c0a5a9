"""Vectors behind a perfect index: all images are compared. The reference for those behind a real one."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.numbered_graph import NumberedGraph
from cbir.gallery.ranking import rank, top_k
from cbir.gallery.vector_blocks import Floats
from cbir.store import Collection
from cbir.store.limited_collection import LimitedCollection
from cbir.store.normalisation import Statistics
from cbir.vector_index.port import IndexScope, Neighbours, Numbers


class ExactVectors:
    """Implements `cbir.search.index_vectors.Vectors` over the view of a collection."""

    def __init__(self, collection: Collection, stored: NumberedGraph | None = None) -> None:
        self.collection, self.stored = collection, stored

    @property
    def statistics(self) -> Statistics:
        return self.collection.view().statistics

    def __len__(self) -> int:
        return len(self.collection.view())

    def over(self, limited: LimitedCollection) -> "ExactVectors":
        return ExactVectors(limited, self.stored)

    def for_search(self) -> "ExactVectors":
        return self

    def graph(self) -> NumberedGraph | None:
        return self.stored

    def generation(self) -> int:
        return self.collection.generation()

    def nearest(self, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        rows, view = self._rows(scope), self.collection.view()
        found = []
        for query in queries:
            ranking = rank(query, view.gallery, rows)
            nearest = top_k(-ranking.distances, k)
            found.append(Neighbours(view.gallery.ids[rows[nearest]], ranking.distances[nearest]))
        return found

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        view = self.collection.view()
        rows = np.intersect1d(view.rows_of(numbers), self._rows(IndexScope()))
        return view.gallery.ids[rows], view.gallery.vectors(rows)

    def sample(self, count: int, scope: IndexScope) -> tuple[Numbers, Floats]:
        view, rows = self.collection.view(), self._rows(scope)
        order = np.argsort(_hash(view.gallery.ids[rows]), kind="stable")
        kept = np.sort(rows[order[:count]])
        return view.gallery.ids[kept], view.gallery.vectors(kept)

    def within(self, numbers: Numbers, scope: IndexScope) -> Numbers:
        return np.intersect1d(numbers, self.collection.view().gallery.ids[self._rows(scope)])

    def count(self, scope: IndexScope) -> int | None:
        return len(self._rows(scope))

    def _rows(self, scope: IndexScope) -> Numbers:
        return self._rows_of(self.generation(), scope)

    @lru_cache  # noqa: B019
    def _rows_of(self, _generation: int, scope: IndexScope) -> Numbers:
        collection, view = self.collection, self.collection.view()
        rows = view.select(collection.matching_rows(view, scope.where), np.empty(0, np.int64))
        rows = np.arange(len(view.gallery)) if rows is None else rows
        for patient in scope.of_patients:
            rows = np.intersect1d(rows, collection.patient_rows(view, patient))
        for key in scope.without_patients:
            rows = np.setdiff1d(rows, collection.excluded_rows(view, exclude_patient_key=key))
        for content in scope.without_contents:
            rows = np.setdiff1d(rows, collection.excluded_rows(view, exclude_content=content))
        return np.setdiff1d(rows, collection.excluded_rows(view, outside=scope.outside))


def _hash(numbers: Numbers) -> NDArray[np.uint64]:
    """Return well mixed numbers (splitmix64 of Steele, Lea & Flood 2014)."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
