"""Vectors that searches of a collection compare: those of its view, or behind a vector index."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from cbir.errors import IndexUnavailable, InvalidInput, NotFound
from cbir.gallery.knn_graph import SAMPLE, NearestDistances, without_snapshot
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, spread_rows
from cbir.search.candidate_view import (
    CandidateQuery,
    CandidateView,
    find_candidates,
    list_everything,
    without_absent,
    without_filter,
)
from cbir.search.fitted_values import SampledValues, Vectors, fitted_values
from cbir.search.view_vectors import ViewVectors
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base.normalisation import Projection, Statistics
from cbir.store.index.port import IndexScope, Numbers
from cbir.store.limited_collection import LimitedCollection
from cbir.store.views.collection_view import View
from cbir.system.threads import run_to_end

Read = TypeVar("Read")

MOST_UNSCALED = 4000  # images
HEADS = 4  # times as many images as candidates: as long as that, a list is re-ranked as a whole


class SearchedVectors:
    """Vectors of one collection, and the choice between its view and an index. Thread-safe.

    Parameters
    ----------
    collection : Collection
        Collection to search.
    settings : Settings
        Number of candidates, and up to how many images are compared without an index.
    of_view : ViewVectors
        Vectors that a view of the collection has.
    indexed : Vectors, optional
        Vectors behind a vector index, which is searched in place of the view.
    everything : Vectors, optional
        Those of all images behind the index, if `collection` is a limited view; `indexed` by default.
    """

    def __init__(
        self,
        collection: Collection,
        settings: Settings,
        of_view: ViewVectors,
        indexed: Vectors | None,
        everything: Vectors | None = None,
    ) -> None:
        self.collection, self.settings, self.of_view, self.indexed = collection, settings, of_view, indexed
        self._everything = indexed if everything is None else everything
        self.whole_up_to = HEADS * settings.indexed_candidates
        self._lock = Lock()
        self._sampled: SampledValues | None = None

    def over(self, collection: LimitedCollection) -> "SearchedVectors":
        """Return the vectors of `collection`, a limited view of this one's."""
        indexed = None if self.indexed is None else self.indexed.over(collection)
        return SearchedVectors(
            collection, self.settings, self.of_view.over(collection), indexed, self._everything
        )

    def statistics(self) -> Statistics:
        """Return the statistics that normalise a query."""
        try:
            return self.current().statistics
        except IndexUnavailable:
            return self.instead().statistics

    def current(self) -> Vectors:
        """Return the vectors to search: those of a view, unless there is a vector index of many images."""
        if self.indexed is None or self._loaded() <= self.whole_up_to:
            return self.of_view
        return self.indexed

    def instead(self) -> ViewVectors:
        """Return the vectors of a view while the index does not answer; raises IndexUnavailable for too many."""
        count = self._loaded()
        if count > self.settings.exact_limit and self.settings.index != "auto":
            raise IndexUnavailable(
                f"the index does not answer, and {count} images are too many to compare without it (exact_limit)"
            )
        return self.of_view

    def read(self, indexed: Callable[[Vectors], Read], whole: Callable[[], Read]) -> Read:
        """Return what `indexed` reads behind a vector index, or `whole` where the collection's view is searched.

        indexed, whole: functions. Raises IndexUnavailable if the index does not answer for too many images.
        """
        try:
            current = self.current()
            return whole() if isinstance(current, ViewVectors) else indexed(current)
        except IndexUnavailable:
            self.instead()
            return whole()

    def rows(self, scope: IndexScope) -> tuple[ViewVectors, Numbers | None]:
        """Return the vectors of a view of the collection, and the rows of a scope there; None for all rows."""
        vectors = self.of_view.for_search()
        return vectors, vectors.rows(scope)

    def require_whole(self, what: str) -> None:
        """Raise InvalidInput where a vector index is named, and `what` would load too many images."""
        if self.indexed is None or self.settings.index == "auto":
            return
        count, limit = self._loaded(), self.settings.exact_limit
        if count > limit:
            raise InvalidInput(
                f"{what} reads all images of the collection: {count} are too many where searches use a vector "
                f"index; it works up to {limit} (setting exact_limit)"
            )

    def candidates(self, vectors: Vectors, query: CandidateQuery) -> CandidateView:
        """Return the images to re-rank for a query: all that match, or candidates where these are many.

        `vectors`: of this search, as `current` or `instead` return them.
        """
        if isinstance(vectors, ViewVectors):
            # Relevance flows through images that a filter leaves out, too.
            linked = query.reach and vectors.graph() is not None
            ranked = without_filter(query.scope) if linked else query.scope
            if vectors.count(ranked) <= self.whole_up_to:
                return list_everything(vectors, query)
            return find_candidates(vectors, fitted_values(vectors.view), query)
        query = replace(query, scope=without_absent(self.collection, query.scope))
        return find_candidates(vectors, self._sampled_values(vectors).fitted, query)

    def likeness(self, vectors: Vectors, candidates: CandidateView, raw: Sequence[Floats]) -> float | None:
        """Return how like the collection the queries are, see `NearestDistances.likeness`.

        Parameters
        ----------
        vectors : Vectors
            Vectors of this search.
        candidates : CandidateView
            What was ranked.
        raw : sequence of (d,) float32
            Raw query vectors.
        """
        ranking = candidates.ranking
        if not len(ranking):
            return None
        if not isinstance(vectors, ViewVectors):
            nearest = float(ranking.distances.min())
            return self._sampled_values(vectors).nearest_distances.likeness(nearest)
        rows = ranking.rows if candidates.hits is None else None
        return query_likeness(self.collection, vectors.view, raw, rows, ranking.distances)

    def _sampled_values(self, vectors: Vectors) -> SampledValues:
        """Return what is fitted to the collection behind an index, of which `vectors` are those of a search."""
        generation, statistics = vectors.generation(), vectors.statistics
        with self._lock:
            sampled = self._sampled
            if sampled is None or not sampled.is_of(generation, statistics):
                assert self.indexed is not None
                self._sampled = sampled = SampledValues(self.indexed, self.collection.profile, sampled)
            return sampled

    def _loaded(self) -> int:
        """Return the number of images whose vectors a view loads: all of them, also for a limited caller."""
        return 0 if self._everything is None else len(self._everything)


_Unscaled = tuple[Floats, NearestDistances]


class _ViewScales:
    """Distances computed once for a view, under a lock of its own: other views do not wait."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.unscaled: _Unscaled | None = None
        self.visible: NearestDistances | None = None


_scales: WeakKeyDictionary[View, _ViewScales] = WeakKeyDictionary()

_lock = Lock()


def query_likeness(
    collection: Collection, view: View, raw: Sequence[Floats], rows: Rows | None, distances: Floats
) -> float | None:
    """Return the likeness of the most like of several queries, see `NearestDistances.likeness`.

    Parameters
    ----------
    collection : Collection
    view : View
        View of the collection that was searched.
    raw : sequence of (d,) float32
        Raw query vectors.
    rows : (m,) int64 or None
        Rows that were ranked; None if they are the nearest of many.
    distances : (m,) float32
        Their distances to the nearest query.

    Returns
    -------
    float or None
        From 0 to 1; None without images to compare with.
    """
    if not len(distances):
        return None
    statistics = view.statistics
    # Without learned directions all lengths are 1 and most of a direction is chance: raw values tell more.
    few = rows is not None and len(view) <= MOST_UNSCALED
    if few and isinstance(statistics, Projection) and statistics.directions is None:
        try:
            vectors, scale = _unscaled_of(collection, view)
        except NotFound:  # deleted since the view was read; distances of normalised vectors do then
            return _scale(collection, view).likeness(float(distances.min()))
        candidates = vectors[rows]
        return scale.likeness(min(float(np.linalg.norm(candidates - each, axis=1).min()) for each in raw))
    return _scale(collection, view).likeness(float(distances.min()))


def _scale(collection: Collection, view: View) -> NearestDistances:
    """Return the distances of the collection; for a limited one between visible images, since others would count."""
    if not isinstance(collection, LimitedCollection) or view.rows is None:
        return view.gallery.nearest_distances
    scales, rows = _scales_of(view), view.rows

    def compare() -> NearestDistances:
        if scales.visible is None:
            sample = view.gallery.vectors(rows[spread_rows(len(rows), SAMPLE)])
            scales.visible = without_snapshot(VectorBlocks((sample,)))
        return scales.visible

    return scales.visible or run_to_end(compare, scales.lock)


def _unscaled_of(collection: Collection, view: View) -> _Unscaled:
    """Return the raw vectors of a view's rows, 0 for deleted ones, and the distances between the others."""
    scales = _scales_of(view)

    def read() -> _Unscaled:
        if scales.unscaled is None:
            live = np.arange(len(view.gallery)) if view.rows is None else view.rows
            raw = collection.raw_vectors(view.gallery.ids[live])
            vectors = np.zeros((len(view.gallery), raw.shape[1]), np.float32)
            vectors[live] = raw
            scales.unscaled = vectors, without_snapshot(VectorBlocks((raw,)))
        return scales.unscaled

    return scales.unscaled or run_to_end(read, scales.lock)


def _scales_of(view: View) -> _ViewScales:
    with _lock:
        return _scales.setdefault(view, _ViewScales())
