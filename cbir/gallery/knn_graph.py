"""The neighbourhood graph of a gallery: images joined with their nearest, the nearer the stronger."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn import NEAREST, NearestNeighbours

SCALE = 5  # the neighbour whose distance is an image's own scale
ROUNDING = 1e-5  # of squared distances up to 4, in float32
LEAST = 0.25  # of the median scale: copies are 0 apart, and with a scale of 0 out of reach of all others
COPIES = 0.01  # scales below this are those of copies

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Graph:
    """weights: symmetric sparse matrix (n, n) float32 of exp(-d^2 / (scale_i scale_j)) where one is among the other's
    nearest, half where the other is not among its (self-tuning scales: Zelnik-Manor & Perona 2004).

    scale: (n,) float32, distance to the fifth neighbour, at least `least`. reach: (n,) float32,
    squared distance to the last one kept.
    """

    weights: Any
    scale: Floats
    reach: Floats
    least: float

    def __len__(self) -> int:
        return len(self.scale)

    @cached_property
    def degrees(self) -> Floats:
        """Sums (n,) float32 of the weights of each image's edges."""
        return np.asarray(self.weights.sum(axis=1), np.float32).ravel()

    def edges(self, squared: Floats) -> Floats:
        """Weights (n,) float32 of the edges that an image would have that is not here.

        squared: (n,) its squared distances to all images, infinite to those it may not be joined with.
        """
        known = np.flatnonzero(np.isfinite(squared))
        weights = np.zeros(len(self), np.float32)
        if not len(known):
            return weights
        nearest = np.sort(np.partition(squared[known], min(NEAREST, len(known)) - 1)[:NEAREST])
        own_scale = _scale(nearest[None, :], self.least)[0]
        # An image that is asked with may itself be the last neighbour of another: not for rounding to decide.
        reached, reaches = squared <= nearest[-1], squared <= self.reach + ROUNDING
        joined = np.flatnonzero((reached | reaches) & np.isfinite(squared))
        similar = np.exp(-squared[joined] / (own_scale * self.scale[joined]))
        weights[joined] = similar * (0.5 * reached[joined] + 0.5 * reaches[joined])
        return weights

    def joined(self, rows: NDArray[np.int32], squared: Floats) -> "Graph":
        """This graph with t further images, whose nearest `rows` (t, k) and `squared` distances (t, k) are given."""
        scale = np.concatenate([self.scale, _scale(squared, self.least)])
        reach = np.concatenate([self.reach, _reach(rows, squared)])
        one_way = _one_way(rows, squared, scale, first=len(self))
        old = self.weights.copy()
        old.resize(one_way.shape)
        return Graph((old + one_way + one_way.T).tocsr(), scale, reach, self.least)


def build_graph(neighbours: NearestNeighbours) -> Graph:
    """The graph of what `neighbours` tells."""
    rows, squared = neighbours.rows, neighbours.squared
    plain = _scale(squared, 0.0)
    apart = plain[plain > COPIES]
    least = LEAST * float(np.median(apart)) if len(apart) else LEAST
    scale = _scale(squared, least)
    one_way = _one_way(rows, squared, scale)
    return Graph((one_way + one_way.T).tocsr(), scale, _reach(rows, squared), least)


def _one_way(rows: NDArray[np.int32], squared: Floats, scale: Floats, first: int = 0) -> Any:
    """Half the weights, sparse (n, n), from the images numbered `first` on to their nearest `rows`."""
    from scipy import sparse  # only now: it takes longer to import than a query

    there = rows >= 0
    counts = there.sum(axis=1)
    starts = np.concatenate([np.zeros(first, np.int64), [0], np.cumsum(counts)])
    ends = rows[there]
    own = np.repeat(scale[first:], counts)
    weights = np.float32(0.5) * np.exp(-squared[there] / (own * scale[ends]))
    return sparse.csr_matrix((weights, ends, starts), shape=(len(scale), len(scale)), dtype=np.float32)


def _reach(rows: NDArray[np.int32], squared: Floats) -> Floats:
    """Squared distances (n,) to the last neighbour there is; -inf where there is none."""
    return np.where(rows >= 0, squared, -np.inf).max(axis=1, initial=-np.inf).astype(np.float32)


def _scale(squared: Floats, least: float) -> Floats:
    """Distances (n,) to the SCALEth neighbour of sorted squared distances (n, k), or to the last there is.

    At least `least`; the median where there is no neighbour, as of images that were added in great number.
    """
    last = np.clip(np.isfinite(squared).sum(axis=1), 1, SCALE) - 1
    chosen = squared[np.arange(len(squared)), last]
    distances = np.sqrt(np.maximum(chosen, least**2))
    return np.where(np.isfinite(chosen), distances, least / LEAST).astype(np.float32)
