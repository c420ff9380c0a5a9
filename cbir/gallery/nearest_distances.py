"""How far images of a collection are from their nearest others: the scale for the nearest answer of a query."""

from dataclasses import dataclass

import numpy as np

from cbir.gallery.knn import EXACT, NearestNeighbours, compare_all
from cbir.gallery.vector_blocks import Floats, VectorBlocks, spread_rows
from cbir.gallery.whitening import Space

SAMPLE = 20_000  # images whose nearest other counts, at most
COPY = 1e-5  # a smaller squared distance is that of a copy, or of rounding; copies of a query are no answers either
OUTLIER = 0.01  # likeness up to which nothing in the collection looks like the query


@dataclass(frozen=True, eq=False)
class NearestDistances:
    """Distances of m images of a collection to their nearest others, copies left out.

    squared: (m,) float32, ascending, squared distances within `space`.
    """

    space: Space
    squared: Floats

    def likeness(self, query: Floats, nearest: Floats) -> float:
        """Return how like the collection a query is, from 1 / (m + 1) to 1.

        The share of images, the query among them, whose nearest other is at least as far as the query's: the p-value
        of a conformal anomaly detector (Laxhammar & Falkman 2010) with the distance to the nearest neighbour. Of
        images like those of the collection, a share of p has a likeness of at most p.

        Parameters
        ----------
        query : (d,) float32
            Normalised query vector.
        nearest : (n, d) float32
            Normalised vectors of the nearest images, n >= 1.
        """
        units, _ = self.space.transform(np.concatenate([query[None], nearest]))
        difference = units[1:] - units[0]
        smallest = np.einsum("ij,ij->i", difference, difference).min()
        at_least = len(self.squared) - np.searchsorted(self.squared, smallest - COPY)
        return float((1 + at_least) / (1 + len(self.squared)))


def from_neighbours(neighbours: NearestNeighbours) -> NearestDistances:
    """Return the distances of the images of a snapshot, of at most SAMPLE of them."""
    return _without_copies(neighbours.space, neighbours.squared[spread_rows(len(neighbours.squared), SAMPLE)])


def of_vectors(vectors: VectorBlocks, space: Space) -> NearestDistances:
    """Return the distances of images without a snapshot, at most EXACT of which are compared with each other."""
    units, _ = space.transform(vectors.vectors(spread_rows(len(vectors), EXACT)))
    return _without_copies(space, compare_all(units, 2)[1])


def _without_copies(space: Space, squared: Floats) -> NearestDistances:
    """Return the smallest of each row of squared distances (m, k) that is not that of a copy, sorted."""
    smallest = np.where(squared > COPY, squared, np.inf).min(axis=1, initial=np.inf)
    return NearestDistances(space, np.sort(smallest[np.isfinite(smallest)]))
