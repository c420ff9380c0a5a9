"""k-NN graph of the candidates of one search as a part of the graph of the whole collection."""

from threading import Lock

import numpy as np

from cbir.gallery.knn import NEAREST
from cbir.gallery.knn_graph import Graph
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.numbered_graph import NumberedGraph
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
        units, lengths = self.space.transform(gallery.vectors(np.arange(count)))
        stored_rows, in_graph = self._stored.rows(self._ids[self._rows])
        added = self._rows[~in_graph]
        alone = np.ones(count, bool)
        alone[self._rows] = False
        order = np.concatenate([self._rows[in_graph], added, np.flatnonzero(alone)])
        position_of = np.argsort(order)
        neighbours = np.full((count - len(stored_rows), NEAREST), -1, np.int32)
        squared = np.full((count - len(stored_rows), NEAREST), np.inf, np.float32)
        if len(added) and len(self._rows) > 1:
            nearest, distances = _nearest(units, added, self._rows)
            neighbours[: len(added), : nearest.shape[1]] = position_of[nearest]
            squared[: len(added), : nearest.shape[1]] = distances
        graph = self._stored.part(stored_rows).extended(neighbours, squared).ordered(position_of)
        self._state = graph, lengths
        return self._state


def _nearest(units: Floats, added: Rows, rows: Rows) -> tuple[Rows, Floats]:
    """Return the nearest of `rows` to each of some of them, nearest first, and their squared distances."""
    squared = np.maximum(2.0 - 2.0 * (units[added] @ units[rows].T), 0.0)
    squared[np.arange(len(added)), np.searchsorted(rows, added)] = np.inf
    k = min(NEAREST, len(rows) - 1)
    nearest = np.argpartition(squared, k - 1, axis=1)[:, :k]
    distances = np.take_along_axis(squared, nearest, axis=1)
    order = np.argsort(distances, axis=1, kind="stable")
    return rows[np.take_along_axis(nearest, order, axis=1)], np.take_along_axis(distances, order, axis=1)
