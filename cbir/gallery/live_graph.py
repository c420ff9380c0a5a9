"""How the images of a gallery lie to each other: space, lengths and graph, kept up with what is added."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbir.gallery import knn_graph as graphs
from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.knn_graph import Graph
from cbir.gallery.whitening import Space
from cbir.threads import cores, for_each

if TYPE_CHECKING:
    from cbir.gallery.gallery import Gallery

AT_ONCE = 16  # added images compared with all at a time: 12 bytes for each comparison
COMPARED = 2_000_000_000  # comparisons spent on added images; those beyond have no neighbours until the next snapshot

Floats = NDArray[np.float32]


class Neighbourhood:
    """Of the first rows of a gallery as of a snapshot, and of those that came later as soon as they are asked for.

    Shared by all views of one snapshot, whose rows never change their place. Thread-safe.
    """

    def __init__(self, neighbours: NearestNeighbours) -> None:
        self.space = neighbours.space
        self._neighbours: NearestNeighbours | None = neighbours
        self._lock = Lock()
        self._state: tuple[Graph, Floats] | None = None

    def covering(self, gallery: Gallery) -> tuple[Graph, Floats]:
        """The graph of at least all rows of `gallery`, and the lengths of its vectors (see `Space.place`)."""
        with self._lock:
            if self._neighbours is not None:
                self._state = graphs.build_graph(self._neighbours), self._neighbours.lengths
                self._neighbours = None  # the graph says it all
            assert self._state is not None
            graph, lengths = self._state
            if len(graph) < len(gallery):
                self._state = graph, lengths = self._extended(graph, lengths, gallery)
            return graph, lengths

    def _extended(self, graph: Graph, lengths: Floats, gallery: Gallery) -> tuple[Graph, Floats]:
        first, count = len(graph), len(gallery)
        added = np.arange(first, count)
        unit, own_lengths = self.space.place(gallery.vectors(added))
        lengths = np.concatenate([lengths, own_lengths])
        rows = np.full((len(added), NEAREST), -1, np.int32)
        squared = np.full((len(added), NEAREST), np.inf, np.float32)
        kept = min(NEAREST, count - 1)
        compared = min(len(added), COMPARED // count) if kept else 0
        for start in range(0, compared, AT_ONCE):
            block = slice(start, min(start + AT_ONCE, compared))
            apart = squared_distances(gallery, self.space, unit[block], lengths)
            apart[np.arange(len(apart)), added[block]] = np.inf
            found = np.argpartition(apart, kept - 1, axis=1)[:, :kept]
            distances = np.take_along_axis(apart, found, axis=1)
            order = np.argsort(distances, axis=1, kind="stable")
            rows[block, :kept] = np.take_along_axis(found, order, axis=1)
            squared[block, :kept] = np.take_along_axis(distances, order, axis=1)
        return graph.joined(rows, squared), lengths


def squared_distances(gallery: Gallery, space: Space, units: Floats, lengths: Floats) -> Floats:
    """Squared distances (m, n) float32 within the space, of images at `units` (m, d) to all of the gallery's n.

    lengths: (n,) or more, of the gallery's vectors. One product with the vectors as they are: x stands at
    (x - centre) P / |...|, and its cosine with u is (x - centre) (P u) / |...|.
    """
    towards = np.ascontiguousarray(space.projection @ units.T)  # (d, m)
    offset = space.centre @ towards
    apart = np.empty((len(units), len(gallery)), np.float32)

    def compare(where: slice, vectors: Floats) -> None:
        cosines = (vectors @ towards - offset) / lengths[where, None]
        np.subtract(2.0, 2.0 * cosines.T, out=apart[:, where])

    for_each(gallery.chunks(), compare, min(cores(), 1 + len(gallery) // 8192))
    return np.maximum(apart, 0.0, out=apart)
