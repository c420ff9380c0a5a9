"""k-NN graph: images joined with their nearest neighbours by edges whose weights fall with distance."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.large_values import large_values
from cbir.gallery.vector_blocks import Floats

SCALE = 5  # the neighbour whose distance is an image's scale
ROUNDING = 1e-5  # of squared distances up to 4, in float32
LEAST = 0.25  # of the median scale: at distance 0, a copy's scale of 0 would cut it off from all others
COPIES = 0.01  # scales below this are those of copies


@dataclass(frozen=True, eq=False)
class Graph:
    """Symmetric k-NN graph with self-tuning scales (Zelnik-Manor & Perona 2004).

    weights: sparse matrix (n, n) float32 of exp(-d^2 / (scale_i scale_j)) if each is among the other's nearest, half
    of that if only one is. scale: (n,) float32, distance to the fifth neighbour, at least `least`. reach: (n,)
    float32, squared distance to the last neighbour.
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
        """Return edge weights (n,) float32 for an out-of-sample image.

        squared: (n,) its squared distances to all images, infinite to those it may not be joined with.
        """
        weights = np.zeros(len(self), np.float32)
        small = large_values(-squared, NEAREST)
        nearest = np.sort(squared if small is None else squared[small])[:NEAREST]
        nearest = nearest[np.isfinite(nearest)]
        if not len(nearest):
            return weights
        query_scale = _scale(nearest[None, :], self.least)[0]
        # A query image may itself be the last neighbour of another: rounding must not decide that.
        reached, reaches = squared <= nearest[-1], squared <= self.reach + ROUNDING
        joined = np.flatnonzero((reached | reaches) & np.isfinite(squared))
        similar = np.exp(-squared[joined] / (query_scale * self.scale[joined]))
        weights[joined] = similar * (0.5 * reached[joined] + 0.5 * reaches[joined])
        return weights

    def beginning(self, count: int) -> "Graph":
        """Return the graph of the first rows, as it was before it was extended."""
        if count == len(self):
            return self
        return Graph(self.weights[:count, :count], self.scale[:count], self.reach[:count], self.least)

    def extended(self, rows: NDArray[np.int32], squared: Floats) -> "Graph":
        """Return this graph with t more images, whose nearest are `rows` (t, k) at `squared` distances (t, k)."""
        scale = np.concatenate([self.scale, _scale(squared, self.least)])
        reach = np.concatenate([self.reach, _reach(rows, squared)])
        directed = _directed(rows, squared, scale, first=len(self))
        old = self.weights.copy()
        old.resize(directed.shape)
        return Graph((old + directed + directed.T).tocsr(), scale, reach, self.least)


def build_graph(neighbours: NearestNeighbours) -> Graph:
    """Build the graph of `neighbours`."""
    rows, squared = neighbours.rows, neighbours.squared
    plain = _scale(squared, 0.0)
    distinct = plain[plain > COPIES]
    least = LEAST * float(np.median(distinct)) if len(distinct) else LEAST
    scale = _scale(squared, least)
    directed = _directed(rows, squared, scale)
    return Graph((directed + directed.T).tocsr(), scale, _reach(rows, squared), least)


def _directed(rows: NDArray[np.int32], squared: Floats, scale: Floats, first: int = 0) -> Any:
    """Return half the weights, sparse (n, n), from the images numbered `first` and up to their nearest `rows`."""
    from scipy import sparse  # only now: it takes longer to import than a query

    present = rows >= 0
    counts = present.sum(axis=1)
    starts = np.concatenate([np.zeros(first, np.int64), [0], np.cumsum(counts)])
    ends = rows[present]
    start_scale = np.repeat(scale[first:], counts)
    weights = np.float32(0.5) * np.exp(-squared[present] / (start_scale * scale[ends]))
    return sparse.csr_matrix((weights, ends, starts), shape=(len(scale), len(scale)), dtype=np.float32)


def _reach(rows: NDArray[np.int32], squared: Floats) -> Floats:
    """Return squared distances (n,) to the last neighbour; -inf if there is none."""
    return np.asarray(np.where(rows >= 0, squared, -np.inf).max(axis=1, initial=-np.inf), np.float32)


def _scale(squared: Floats, least: float) -> Floats:
    """Return distances (n,) to the SCALEth neighbour of sorted squared distances (n, k), or to the last there is.

    At least `least`; the median without neighbours, as for images added in large numbers.
    """
    last = np.clip(np.isfinite(squared).sum(axis=1), 1, SCALE) - 1
    scale = squared[np.arange(len(squared)), last]
    distances = np.sqrt(np.maximum(scale, least**2))
    return np.where(np.isfinite(scale), distances, least / LEAST).astype(np.float32)
