"""k-NN graph of the candidates of one search, in place of a graph of the whole collection."""

from threading import Lock
from typing import Protocol

import numpy as np

from cbir.gallery.knn import NEAREST, NearestNeighbours, compare_all
from cbir.gallery.knn_graph import Graph, build_graph
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.nearest_distances import NearestDistances
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks
from cbir.gallery.whitening import Space


class Scale(Protocol):
    """What is fitted to the whole collection."""

    @property
    def space(self) -> Space: ...

    @property
    def nearest_distances(self) -> NearestDistances: ...


class CandidateGraph(Neighbourhood):
    """Graph of some rows of a gallery, built when it is first asked for; the other rows have no neighbours.

    Parameters
    ----------
    scale : Scale
        Whitened space of the whole collection, and distances between its images.
    rows : (m,) int64
        Rows to join, ascending.
    """

    def __init__(self, scale: Scale, rows: Rows) -> None:
        self.space = scale.space
        self._scale, self._rows = scale, rows
        self._lock = Lock()
        self._state: tuple[Graph, Floats] | None = None

    def nearest_distances(self, gallery: VectorBlocks) -> NearestDistances:
        """Return the distances of the whole collection."""
        return self._scale.nearest_distances

    def _follow(self, gallery: VectorBlocks) -> tuple[Graph, Floats]:
        units, lengths = self.space.transform(gallery.vectors(np.arange(len(gallery))))
        neighbours, distances = compare_all(units[self._rows], NEAREST)
        rows = np.full((len(gallery), NEAREST), -1, np.int32)
        squared = np.full((len(gallery), NEAREST), np.inf, np.float32)
        rows[self._rows] = np.where(neighbours < 0, -1, self._rows[neighbours])
        squared[self._rows] = distances
        self._state = build_graph(NearestNeighbours(self.space, rows, squared, lengths)), lengths
        return self._state
