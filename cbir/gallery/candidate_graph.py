"""k-NN graph of the candidates of one search, in place of a graph of the whole collection."""

from threading import Lock
from typing import Protocol

import numpy as np

from cbir.gallery.knn import NEAREST, NearestNeighbours, compare_all
from cbir.gallery.knn_graph import Graph, build_graph
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.nearest_distances import NearestDistances
from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks
from cbir.gallery.whitening import Space

# Rows that are joined, at most, where vectors are compared as they are: further ones gain little there. In a
# whitened space relevance flows far, and all are joined. bench/results/candidate_quality.md
LINKED = 2000


class Scale(Protocol):
    """Values fitted to the whole collection."""

    @property
    def space(self) -> Space: ...

    @property
    def nearest_distances(self) -> NearestDistances: ...


class CandidateGraph(Neighbourhood):
    """Graph of some rows of a gallery, built by its first use; the other rows have no neighbours.

    Parameters
    ----------
    scale : Scale
        Whitened space of the whole collection, and distances between its images.
    queries : (q, d) float32
        Normalised vectors that are searched with.
    rows : (m,) int64
        Rows that may be joined, ascending.
    always : (a,) int64
        Those of them that are joined in any case.
    """

    def __init__(self, scale: Scale, queries: Floats, rows: Rows, always: Rows) -> None:
        self.space = scale.space
        self._scale, self._queries, self._rows, self._always = scale, queries, rows, always
        self._lock = Lock()
        self._state: tuple[Graph, Floats] | None = None

    def nearest_distances(self, gallery: VectorBlocks) -> NearestDistances:
        """Return the distances of the whole collection."""
        return self._scale.nearest_distances

    def _follow(self, gallery: VectorBlocks) -> tuple[Graph, Floats]:
        units, lengths = self.space.transform(gallery.vectors(np.arange(len(gallery))))
        joined = self._joined(units)
        neighbours, distances = compare_all(units[joined], NEAREST)
        rows = np.full((len(gallery), NEAREST), -1, np.int32)
        squared = np.full((len(gallery), NEAREST), np.inf, np.float32)
        rows[joined] = np.where(neighbours < 0, -1, joined[neighbours])
        squared[joined] = distances
        self._state = build_graph(NearestNeighbours(self.space, rows, squared, lengths)), lengths
        return self._state

    def _joined(self, units: Floats) -> Rows:
        """Return the rows to join, ascending: those nearest to the queries, as many to each, and `always`."""
        if len(self._rows) <= LINKED or self.space.projection is not None:
            return self._rows
        cosines = units[self._rows] @ self.space.transform(self._queries)[0].T
        share = -(-LINKED // len(self._queries))
        nearest = [self._rows[top_k(column, share)] for column in cosines.T]
        return np.unique(np.concatenate([*nearest, self._always]))
