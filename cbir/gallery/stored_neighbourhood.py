"""k-NN graph of the candidates of one search as a part of the graph of the whole collection."""

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn import NEAREST
from cbir.gallery.knn_graph import Graph
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.numbered_graph import NumberedGraph, PartialGraph
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks


class StoredNeighbourhood(Neighbourhood):
    """Graph of some rows of a gallery, read from that of the collection by its first use.

    Images that the graph of the collection lacks, since they were added later, are joined with their neighbours among
    these rows. The other rows of the gallery have no neighbours.

    Parameters
    ----------
    stored : NumberedGraph
        Graph of the whole collection.
    ids : (n,) int64
        Image numbers of the gallery, ascending.
    rows : (m,) int64
        Rows that are joined, ascending.
    """

    def __init__(self, stored: NumberedGraph, ids: Rows, rows: Rows) -> None:
        self.space = stored.space
        self._stored, self._ids, self._rows = stored, ids, rows
        self._lock = Lock()
        self._state: tuple[Graph, Floats] | None = None

    def _follow(self, gallery: VectorBlocks) -> tuple[Graph, Floats]:
        count = len(self._ids)
        lengths = np.concatenate([self.space.lengths(block) for block in gallery.blocks])
        stored_rows, in_graph = self._stored.rows(self._ids[self._rows])
        graph = self._stored.part(stored_rows)
        if not in_graph.all():
            units, _ = self.space.transform(gallery.vectors(self._rows))
            graph = _joined(graph, units, in_graph)
        graph = graph.placed(self._rows, count)
        self._state = graph, lengths
        return self._state


def _joined(graph: PartialGraph, units: Floats, in_graph: NDArray[np.bool_]) -> PartialGraph:
    """Return the graph of images at `units` (m, d), of which it has those `in_graph`, with the others joined."""
    added = np.flatnonzero(~in_graph)
    position_of = np.argsort(np.concatenate([np.flatnonzero(in_graph), added]))
    neighbours = np.full((len(added), NEAREST), -1, np.int32)
    squared = np.full((len(added), NEAREST), np.inf, np.float32)
    if len(units) > 1:
        nearest, distances = _nearest(units, added)
        neighbours[:, : nearest.shape[1]] = position_of[nearest]
        squared[:, : nearest.shape[1]] = distances
    return graph.extended(neighbours, squared).ordered(position_of)


def _nearest(units: Floats, added: Rows) -> tuple[Rows, Floats]:
    """Return the images nearest to each of the `added`, nearest first, and their squared distances."""
    squared = np.maximum(2.0 - 2.0 * (units[added] @ units.T), 0.0)
    squared[np.arange(len(added)), added] = np.inf
    k = min(NEAREST, len(units) - 1)
    nearest = np.argpartition(squared, k - 1, axis=1)[:, :k]
    distances = np.take_along_axis(squared, nearest, axis=1)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1), np.take_along_axis(distances, order, axis=1)
