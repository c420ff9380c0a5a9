"""Likeness of a query to the searched images."""

from collections.abc import Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from cbir.errors import NotFound
from cbir.gallery.knn import SAMPLE, NearestDistances, without_snapshot
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, spread_rows
from cbir.store import Collection
from cbir.store.base.projection import Projection
from cbir.store.limited_collection import LimitedCollection
from cbir.store.views.collection_view import View
from cbir.system.cancellation import run_to_end

MOST_UNSCALED = 4000  # images

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
