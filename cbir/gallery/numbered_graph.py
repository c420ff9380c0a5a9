"""k-NN graph of a whole collection by image number, of which a search reads the part around its candidates."""

from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import top_k
from cbir.gallery.knn import NEAREST
from cbir.gallery.knn_graph import LEAST as LEAST_SCALE
from cbir.gallery.knn_graph import Graph, Neighbourhood, nearest_columns
from cbir.gallery.vector_blocks import LEAST, Floats, Rows, Space, VectorBlocks, positions_among

STEPS = 20  # of relevance along edges, at most


@dataclass(frozen=True, eq=False)
class PartialGraph(Graph):
    """Some images of a larger graph. leaving: (n,) float32, sums of the weights of each image's edges to others."""

    leaving: Floats

    @cached_property
    def degrees(self) -> Floats:
        """Sums (n,) float32 of the weights of each image's edges in the larger graph."""
        return np.asarray(self.weights.sum(axis=1), np.float32).ravel() + self.leaving

    def extended(self, rows: NDArray[np.int32], squared: Floats) -> "PartialGraph":
        """Return this graph with t more images, as `Graph.extended` does."""
        longer = super().extended(rows, squared)
        leaving = np.concatenate([self.leaving, np.zeros(len(rows), np.float32)])
        return PartialGraph(longer.weights, longer.scale, longer.reach, longer.least, leaving)

    def ordered(self, rows: Rows) -> "PartialGraph":
        """Return this graph with its images in the order of `rows` (n,) int64."""
        weights = self.weights[rows][:, rows]
        return PartialGraph(weights, self.scale[rows], self.reach[rows], self.least, self.leaving[rows])

    def placed(self, places: Rows, count: int) -> "PartialGraph":
        """Return a graph of `count` images, of which those at ascending `places` (n,) are these, the others alone."""
        from scipy import sparse  # only now: it takes longer to import than a query

        counts, starts = np.zeros(count, np.int32), np.zeros(count + 1, np.int32)
        counts[places] = np.diff(self.weights.indptr)
        np.cumsum(counts, out=starts[1:])
        ends = places.astype(np.int32)[self.weights.indices]
        weights = sparse.csr_matrix((self.weights.data, ends, starts), shape=(count, count))
        scale = np.full(count, self.least / LEAST_SCALE, np.float32)
        reach, leaving = np.full(count, -np.inf, np.float32), np.zeros(count, np.float32)
        scale[places], reach[places], leaving[places] = self.scale, self.reach, self.leaving
        return PartialGraph(weights, scale, reach, self.least, leaving)


@dataclass(frozen=True, eq=False)
class NumberedGraph:
    """Symmetric k-NN graph of n images with e edges, as `Graph` has, in arrays that may be mapped from a file.

    numbers: (n,) int64, ascending. starts: (n + 1,) int, where the edges of each image begin. ends: (e,) int32,
    rows that they lead to. weights: (e,) float32. scale, reach, degrees: (n,) float32. space: that it was made in.
    """

    numbers: Rows
    starts: Rows
    ends: NDArray[np.int32]
    weights: Floats
    scale: Floats
    reach: Floats
    degrees: Floats
    least: float
    space: Space

    def __len__(self) -> int:
        return len(self.numbers)

    def rows(self, numbers: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows (k,) of those of the numbers (m,) that are in the graph, and which those are (m,)."""
        return positions_among(numbers, self.numbers)

    def joined(self, rows: Rows, squared: Floats) -> Floats:
        """Return the relevance (m,) that flows from an image outside of the graph into rows, 1 in all.

        squared: (m,) float32, its squared distances to them within the space.
        """
        edges = Graph(None, self.scale[rows], self.reach[rows], self.least).edges(squared)
        root = np.sqrt(self.degrees[rows] + edges)
        start = np.divide(edges, root, out=np.zeros_like(edges), where=root > 0.0)
        return np.asarray(start / max(float(start.sum()), LEAST), np.float32)

    def part(self, rows: Rows) -> PartialGraph:
        """Return the graph of some rows (m,) int64, ascending."""
        from scipy import sparse  # only now: it takes longer to import than a query

        sources, ends, weights = self._edges(rows)
        place_of = np.full(len(self), -1, np.int32)  # a table: bisection would take several times as long
        place_of[rows] = np.arange(len(rows), dtype=np.int32)
        columns = place_of[ends]
        inside = columns >= 0
        starts = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(np.bincount(sources[inside], minlength=len(rows)), out=starts[1:])
        part = sparse.csr_matrix((weights[inside], columns[inside], starts), shape=(len(rows),) * 2)
        outside = np.bincount(sources[~inside], weights[~inside], minlength=len(rows)).astype(np.float32)
        return PartialGraph(part, self.scale[rows], self.reach[rows], self.least, outside)

    def reached(self, rows: Rows, start: Floats, most: int) -> Rows:
        """Return the rows, ascending, that most relevance reaches first.

        Parameters
        ----------
        rows : (s,) int64
            Rows that relevance comes from, ascending.
        start : (s,) float32
            Relevance that flows in at each of them in each step.
        most : int
            Largest number of rows returned.
        """
        flows = start > 0.0
        rows, start = rows[flows], start[flows]
        nodes, flow = rows, start
        place_of = np.empty(len(self), np.int32)  # a table: to sort all ends would take twice as long
        for _ in range(STEPS):
            sources, ends, weights = self._edges(nodes)
            targets = np.concatenate([rows, ends])
            order = np.arange(len(targets), dtype=np.int32)
            place_of[targets] = order  # the last one of each
            arriving = np.sort(targets[place_of[targets] == order])
            place_of[arriving] = order[: len(arriving)]
            sums = np.bincount(place_of[targets], np.concatenate([start, weights * flow[sources]]))
            flow = sums.astype(np.float32)
            if len(arriving) > most:
                return arriving[np.sort(top_k(flow, most))]
            if len(arriving) == len(nodes):
                return arriving
            nodes = arriving
        return nodes

    def _edges(self, rows: Rows) -> tuple[Rows, Rows, Floats]:
        """Return the edges of rows: positions among the rows, rows at the other ends, and weights."""
        starts = self.starts[rows]
        counts = self.starts[rows + 1] - starts
        sources = np.repeat(np.arange(len(rows)), counts)
        edges = np.arange(len(sources)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
        return sources, self.ends[edges].astype(np.int64), self.weights[edges]


def number_graph(numbers: Rows, graph: Graph, space: Space) -> NumberedGraph:
    """Return the graph of images `numbers` (n,) int64, ascending, that was made in `space`."""
    weights = graph.weights
    return NumberedGraph(
        numbers, weights.indptr, weights.indices.astype(np.int32, copy=False), weights.data,
        graph.scale, graph.reach, graph.degrees, graph.least, space,
    )  # fmt: skip


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
    return nearest_columns(squared, min(NEAREST, len(units) - 1))
