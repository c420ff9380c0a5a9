"""Likeness of a query to the searched images."""

from collections.abc import Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from cbir.errors import NotFound
from cbir.gallery.nearest_distances import NearestDistances, without_snapshot
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks
from cbir.store import Collection
from cbir.store.collection_view import View
from cbir.store.projection import Projection

MOST_UNSCALED = 4000  # images

_Unscaled = tuple[Floats, NearestDistances]
_unscaled: WeakKeyDictionary[View, _Unscaled] = WeakKeyDictionary()
_lock = Lock()


def query_likeness(
    collection: Collection, view: View, raw: Sequence[Floats], rows: Rows, distances: Floats
) -> float | None:
    """Return the likeness of the most like of several queries, see `NearestDistances.likeness`.

    Parameters
    ----------
    collection : Collection
    view : View
        View of the collection that was searched.
    raw : sequence of (d,) float32
        Raw query vectors.
    rows : (m,) int64
        Rows that were ranked.
    distances : (m,) float32
        Their distances to the nearest query.

    Returns
    -------
    float or None
        From 0 to 1; None without images to compare with.
    """
    if not len(rows):
        return None
    statistics = view.statistics
    # Without learned directions all lengths are 1 and most of a direction is chance: raw values tell more.
    if isinstance(statistics, Projection) and statistics.directions is None and len(view) <= MOST_UNSCALED:
        try:
            vectors, scale = _unscaled_of(collection, view)
        except NotFound:  # deleted since the view was read; distances of normalised vectors do then
            return view.gallery.nearest_distances.likeness(float(distances.min()))
        candidates = vectors[rows]
        return scale.likeness(min(float(np.linalg.norm(candidates - each, axis=1).min()) for each in raw))
    return view.gallery.nearest_distances.likeness(float(distances.min()))


def _unscaled_of(collection: Collection, view: View) -> _Unscaled:
    """Return the raw vectors of a view's rows, 0 for deleted ones, and the distances between the others."""
    with _lock:
        if view not in _unscaled:
            live = np.arange(len(view.gallery)) if view.rows is None else view.rows
            raw = collection.raw_vectors(view.gallery.ids[live])
            vectors = np.zeros((len(view.gallery), raw.shape[1]), np.float32)
            vectors[live] = raw
            _unscaled[view] = vectors, without_snapshot(VectorBlocks((raw,)))
        return _unscaled[view]
