"""How much the list itself says for the images at its top, without labels."""

import numpy as np

from cbir.gallery.knn_graph import COPY, NearestDistances
from cbir.gallery.vector_blocks import Doubles, Rows
from cbir.rerank.backend import Backend

MEASURED = (
    100  # nearest images whose distances to their nearest others are the scale: the middle of those compared
)


class NeighbourLikeness:
    """How usual the distances of images to the query are between neighbours near it.

    The share of the MEASURED nearest images whose own nearest other is at least as far: the likeness of searches
    (`NearestDistances.likeness`), on the scale of the surroundings of the query. An image of a small class is soon
    farther than neighbours are from each other; in a large class many are as near.
    """

    def __init__(self, backend: Backend) -> None:
        self._ranking = backend.ranking
        between = np.sqrt(backend.near_squared[1 : MEASURED + 1, 1:])
        between[between <= COPY] = np.inf  # the image itself, and copies
        own = between.min(axis=1, initial=np.inf)
        self._scale = NearestDistances(np.sort(own[np.isfinite(own)]))

    def __call__(self, rows: Rows) -> Doubles:
        """Return the likeness (m,) of gallery rows of the list: above 0, at most 1; 1 without neighbours."""
        distances = self._ranking.distances[np.searchsorted(self._ranking.rows, rows)]
        return np.array([self._scale.likeness(distance) or 1.0 for distance in distances.tolist()])
