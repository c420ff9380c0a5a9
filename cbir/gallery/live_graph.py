"""k-NN graph of a gallery, extended lazily with rows added since the snapshot."""

from functools import partial
from threading import Lock

import numpy as np

from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.knn_graph import Graph, build_graph
from cbir.gallery.nearest_distances import SAMPLE, NearestDistances, between
from cbir.gallery.vector_blocks import Floats, VectorBlocks, spread_rows
from cbir.gallery.whitening import Space
from cbir.system.cancellation import run_to_end
from cbir.system.threads import cores, for_each

BATCH = 16  # added images compared with all others at a time: 12 bytes for each comparison
MAX_COMPARISONS = 2_000_000_000  # for added images; the rest have no neighbours until the next snapshot


class Neighbourhood:
    """k-NN graph of a snapshot and of the rows added since.

    Shared by all views of one snapshot, whose rows never change. Thread-safe.
    """

    def __init__(self, neighbours: NearestNeighbours) -> None:
        self.space = neighbours.space
        self._sample = spread_rows(len(neighbours.rows), SAMPLE)
        self._near_sample = neighbours.rows[self._sample]
        self._nearest: NearestDistances | None = None
        self._neighbours: NearestNeighbours | None = neighbours
        self._lock = Lock()
        self._state: tuple[Graph, Floats] | None = None

    def nearest_distances(self, gallery: VectorBlocks) -> NearestDistances:
        """Return the distances of images of the snapshot, with which `gallery` begins, to their nearest others."""
        if self._nearest is None:
            self._nearest = between(gallery, self._sample, self._near_sample)
        return self._nearest

    def covering(self, gallery: VectorBlocks) -> tuple[Graph, Floats]:
        """Return a graph of at least all rows of `gallery`, and its vectors' lengths (see `Space.transform`)."""
        state = self._state
        if state is None or len(state[0]) < len(gallery):
            state = run_to_end(partial(self._follow, gallery), self._lock)
        return state

    def _follow(self, gallery: VectorBlocks) -> tuple[Graph, Floats]:
        if self._neighbours is not None:
            self._state = build_graph(self._neighbours), self._neighbours.lengths
            self._neighbours = None  # the graph has all its information
        assert self._state is not None
        graph, lengths = self._state
        if len(graph) < len(gallery):
            self._state = graph, lengths = self._extended(graph, lengths, gallery)
        return graph, lengths

    def _extended(self, graph: Graph, lengths: Floats, gallery: VectorBlocks) -> tuple[Graph, Floats]:
        count = len(gallery)
        added = np.arange(len(graph), count)
        units, added_lengths = self.space.transform(gallery.vectors(added))
        lengths = np.concatenate([lengths, added_lengths])
        rows = np.full((len(added), NEAREST), -1, np.int32)
        squared = np.full((len(added), NEAREST), np.inf, np.float32)
        k = min(NEAREST, count - 1)
        compared = min(len(added), MAX_COMPARISONS // count) if k else 0
        for start in range(0, compared, BATCH):
            batch = slice(start, min(start + BATCH, compared))
            distances = squared_distances(gallery, self.space, units[batch], lengths)
            distances[np.arange(len(distances)), added[batch]] = np.inf
            nearest = np.argpartition(distances, k - 1, axis=1)[:, :k]
            nearest_distances = np.take_along_axis(distances, nearest, axis=1)
            order = np.argsort(nearest_distances, axis=1, kind="stable")
            rows[batch, :k] = np.take_along_axis(nearest, order, axis=1)
            squared[batch, :k] = np.take_along_axis(nearest_distances, order, axis=1)
        return graph.extended(rows, squared), lengths


def squared_distances(gallery: VectorBlocks, space: Space, units: Floats, lengths: Floats) -> Floats:
    """Return squared distances (m, n) float32 within a whitened space.

    One product with the vectors as they are: x has the position (x - centre) P / |...|, and its cosine with u is
    (x - centre) (P u) / |...|.

    Parameters
    ----------
    gallery : VectorBlocks
        n vectors to compare with.
    space : Space
        The space.
    units : (m, d) float32
        Positions within the space, of length 1.
    lengths : (>= n,) float32
        Lengths of the gallery's vectors in the space, see `Space.transform`.
    """
    towards = space.projections(units)  # (d, m)
    offset = space.centre @ towards
    squared = np.empty((len(units), len(gallery)), np.float32)

    def compare(where: slice, vectors: Floats) -> None:
        cosines = (vectors @ towards - offset) / lengths[where, None]
        np.subtract(2.0, 2.0 * cosines.T, out=squared[:, where])

    for_each(gallery.chunks(), compare, min(cores(), 1 + len(gallery) // 8192))
    return np.maximum(squared, 0.0, out=squared)
