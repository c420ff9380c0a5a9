"""k-NN graph: images joined with their nearest neighbours by edges whose weights fall with distance."""

from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn import NEAREST, NearestNeighbours, compare_all
from cbir.gallery.vector_blocks import Floats, Rows, Space, VectorBlocks, large_values, spread_rows
from cbir.system.threads import cores, for_each, run_to_end

SCALE = 5  # the neighbour whose distance is an image's scale
ROUNDING = 1e-5  # of squared distances up to 4, in float32
LEAST = 0.25  # of the median scale: at distance 0, a copy's scale of 0 would cut it off from all others
COPIES = 0.01  # scales below this are those of copies

BATCH = 16  # added images compared with all others at a time: 12 bytes for each comparison
MAX_COMPARISONS = 2_000_000_000  # for added images; the rest have no neighbours until the next snapshot

WEIGHED = 1000  # rows of the filter, evenly spread, whose edges are weighed
CLOSED = 0.8  # share of their weight that leads to other images of the filter

SAMPLE = 5000  # images whose nearest other counts, at most
OTHERS = 4  # others of which one is no copy; without a snapshot
COPY = 0.003  # a smaller distance is that of a copy, or of rounding; copies of a query are no answers either
DISTANCE_ROUNDING = (
    1e-5  # of distances: an image of the collection is as far from its nearest other as itself
)
OUTLIER = 0.01  # likeness up to which nothing in the collection looks like the query


@dataclass(frozen=True, eq=False)
class NearestDistances:
    """Distances (m,) float32 of images of a collection to their nearest others, ascending; copies left out."""

    distances: Floats

    def likeness(self, nearest: float) -> float | None:
        """Return how like the collection a query is whose nearest image is at distance `nearest`.

        From 1 / (m + 1) to 1: the share of images, the query among them, whose nearest other is at least as far. It
        is the p-value of a conformal anomaly detector (Laxhammar & Falkman 2010) with the distance to the nearest
        neighbour: of images like those of the collection, a share of p has a likeness of at most p. None without
        two images.
        """
        if not len(self.distances):
            return None
        at_least = len(self.distances) - np.searchsorted(self.distances, nearest - DISTANCE_ROUNDING)
        return float((1 + at_least) / (1 + len(self.distances)))


def nearest_of(vectors: VectorBlocks, rows: Rows, neighbours: Rows | NDArray[np.int32]) -> Floats:
    """Return the distances (m,) of some images to the nearest of their neighbours; infinite if all are copies.

    Parameters
    ----------
    vectors : VectorBlocks
        Vectors of the images.
    rows : (m,) int64
        Rows of some of them.
    neighbours : (m, k) int
        Rows of near ones of each; -1 if there are fewer.
    """
    smallest = np.full(len(rows), np.inf, np.float32)
    own = vectors.vectors(rows)
    for column in neighbours.T:
        difference = vectors.vectors(np.maximum(column, 0).astype(np.int64)) - own
        distances = np.sqrt(np.einsum("ij,ij->i", difference, difference))
        np.minimum(smallest, np.where((column >= 0) & (distances > COPY), distances, np.inf), out=smallest)
    return smallest


def between(vectors: VectorBlocks, rows: Rows, neighbours: Rows | NDArray[np.int32]) -> NearestDistances:
    """Return the distances of `rows` of `vectors` to the nearest of their `neighbours`; see `nearest_of`."""
    smallest = nearest_of(vectors, rows, neighbours)
    return NearestDistances(np.sort(smallest[np.isfinite(smallest)]))


def without_snapshot(vectors: VectorBlocks) -> NearestDistances:
    """Return the distances of at most SAMPLE images, which are compared with each other."""
    rows = spread_rows(len(vectors), SAMPLE)
    sample = VectorBlocks((vectors.vectors(rows),))
    return between(sample, np.arange(len(rows)), compare_all(sample.blocks[0], OTHERS)[0])


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

    def push(self, flow: Floats, nodes: Rows, beside: Rows) -> tuple[Rows, Floats]:
        """Send the flow (s,) of some nodes along their edges; passes over all nodes would take most of the time.

        Parameters
        ----------
        flow : (s,) float32
            What each of `nodes` sends.
        nodes : (s,) int
            Nodes, ascending.
        beside : (b,) int
            Further nodes of the result.

        Returns
        -------
        reached : (r,) int
            Nodes that edges lead to, and those `beside` them, ascending.
        arriving : (r,) float32
            What arrives there.
        """
        edges = self.weights[nodes]
        touched = np.zeros(len(self), bool)
        touched[edges.indices] = touched[beside] = True
        reached = np.flatnonzero(touched)
        return reached, (edges.T @ flow)[reached]

    def within(self, nodes: Rows) -> Any:
        """Return the weights between `nodes` (s,), sparse (s, s)."""
        return self.weights if len(nodes) == len(self) else self.weights[nodes][:, nodes]

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
            rows[batch, :k], squared[batch, :k] = nearest_columns(distances, k)
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
        cosines = (space.raised(vectors) @ towards - offset) / lengths[where, None]
        np.subtract(2.0, 2.0 * cosines.T, out=squared[:, where])

    for_each(gallery.chunks(), compare, min(cores(), 1 + len(gallery) // 8192))
    return np.maximum(squared, 0.0, out=squared)


def nearest_columns(squared: Floats, k: int) -> tuple[Rows, Floats]:
    """Return the columns (m, k) of the least values of each row of `squared` (m, n), least first, and the values."""
    nearest = np.argpartition(squared, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(squared, nearest, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1), np.take_along_axis(values, order, axis=1)


def flow_rows(graph: Graph, rows: Rows, passable: Rows | None) -> Rows:
    """Return the rows that relevance may flow through to find images of a filter.

    A filter such as a modality follows the clusters of the collection: relevance then stays among its images, as if
    there were no others. A filter across the clusters tears them apart: relevance flows through all visible images.

    Parameters
    ----------
    graph : Graph
        Graph of the whole gallery.
    rows : (m,) int64
        Rows that pass the filter, ascending.
    passable : (p,) int64 or None
        All visible rows, `rows` among them; None: there is no filter.
    """
    if passable is None or len(rows) in (0, len(passable)):
        return rows
    weights = graph.weights[rows[spread_rows(len(rows), WEIGHED)]]
    visible, inside = np.zeros(len(graph), bool), np.zeros(len(graph), bool)
    visible[passable] = inside[rows] = True
    total = float(weights.data[visible[weights.indices]].sum())
    return rows if float(weights.data[inside[weights.indices]].sum()) >= CLOSED * total else passable
