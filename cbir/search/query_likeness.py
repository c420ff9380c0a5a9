"""How like a collection a query is, by its nearest image."""

from collections.abc import Sequence

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Floats, Rows

COMPARED = 200  # nearest images, of which one is nearest in the space of `nearest_distances` too


def query_likeness(
    gallery: Gallery, queries: Sequence[Floats], rows: Rows, distances: Floats
) -> float | None:
    """Return how like the collection the most like of several queries is; None if there is nothing to compare with.

    Parameters
    ----------
    gallery : Gallery
        Vectors of the collection.
    queries : sequence of (d,) float32
        Normalised query vectors.
    rows : (m,) int64
        Rows that may be answers.
    distances : (m,) float32
        Their distances to the nearest query.
    """
    scale = gallery.nearest_distances
    if not len(rows) or not len(scale.squared):
        return None
    nearest = gallery.vectors(np.sort(rows[top_k(-distances, COMPARED)]))
    return max(scale.likeness(query, nearest) for query in queries)
