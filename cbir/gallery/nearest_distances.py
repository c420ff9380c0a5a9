"""Distances of images of a collection to their nearest others: the scale for the nearest answer of a query."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn import compare_all
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, spread_rows

SAMPLE = 5000  # images whose nearest other counts, at most
NEAREST = 4  # others of which one is no copy; without a snapshot
COPY = 0.003  # a smaller distance is that of a copy, or of rounding; copies of a query are no answers either
ROUNDING = 1e-5  # of distances: an image of the collection is as far from its nearest other as itself
OUTLIER = 0.01  # likeness up to which nothing in the collection looks like the query


@dataclass(frozen=True, eq=False)
class NearestDistances:
    """Distances (m,) float32 of images of a collection to their nearest others, ascending; copies left out."""

    distances: Floats

    def likeness(self, nearest: float) -> float | None:
        """Return how like the collection a query is whose nearest image is at distance `nearest`.

        From 1 / (m + 1) to 1: the share of images, the query among them, whose nearest other is at least as far. It
        is the p-value of a conformal anomaly detector (Laxhammar & Falkman 2010) with the distance to the nearest
        neighbour: of images like those of the collection, a share of p has a likeness of at most p. None without
        two images.
        """
        if not len(self.distances):
            return None
        at_least = len(self.distances) - np.searchsorted(self.distances, nearest - ROUNDING)
        return float((1 + at_least) / (1 + len(self.distances)))


def nearest_of(vectors: VectorBlocks, rows: Rows, neighbours: Rows | NDArray[np.int32]) -> Floats:
    """Return the distances (m,) of some images to the nearest of their neighbours; infinite if all are copies.

    Parameters
    ----------
    vectors : VectorBlocks
        Vectors of the images.
    rows : (m,) int64
        Rows of some of them.
    neighbours : (m, k) int
        Rows of near ones of each; -1 if there are fewer.
    """
    smallest = np.full(len(rows), np.inf, np.float32)
    own = vectors.vectors(rows)
    for column in neighbours.T:
        difference = vectors.vectors(np.maximum(column, 0).astype(np.int64)) - own
        distances = np.sqrt(np.einsum("ij,ij->i", difference, difference))
        np.minimum(smallest, np.where((column >= 0) & (distances > COPY), distances, np.inf), out=smallest)
    return smallest


def between(vectors: VectorBlocks, rows: Rows, neighbours: Rows | NDArray[np.int32]) -> NearestDistances:
    """Return the distances of some images to the nearest of their neighbours; see `nearest_of`."""
    smallest = nearest_of(vectors, rows, neighbours)
    return NearestDistances(np.sort(smallest[np.isfinite(smallest)]))


def without_snapshot(vectors: VectorBlocks) -> NearestDistances:
    """Return the distances of at most SAMPLE images, which are compared with each other."""
    rows = spread_rows(len(vectors), SAMPLE)
    sample = VectorBlocks((vectors.vectors(rows),))
    return between(sample, np.arange(len(rows)), compare_all(sample.blocks[0], NEAREST)[0])
