"""Immutable gallery of a collection's vectors: distances of a query to all of them, and its ranking list."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Lock

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.flat_index import FlatIndex
from cbir.gallery.knn_graph import NearestDistances, Neighbourhood, without_snapshot
from cbir.gallery.vector_blocks import (
    SAMPLE,
    Floats,
    Rows,
    Scores,
    Space,
    SpaceCache,
    VectorBlocks,
    fit_space,
    large_values,
    plain_space,
    spread_rows,
)
from cbir.system.threads import checkpoint, cores, for_each, run_to_end

ROWS_PER_THREAD = 32_768  # for fewer, a thread costs more than it saves
UNEVEN = (2, 4, 8)  # dimensions in which FAISS rounds by the place of a vector: copies would not be as far
MOST = 0.6  # share of the rows from which computing all is faster than copying those

_fitting = Lock()


@dataclass(frozen=True, eq=False)
class Gallery(VectorBlocks):
    """Vectors of a collection. The first block usually views the memory-mapped snapshot, the last is what was added.

    ids: (n,) int64, strictly ascending: image number of each row.
    parts: start and stop of each part of the descriptor; empty if it has one kind of values.
    projected: the vectors are projected to learned directions, and compared as they are.
    neighbourhood: k-NN graph; None without a snapshot.
    flat_index: FAISS index of the first rows, those of a snapshot; None without one.
    fitted_space: whitened space of a larger gallery that these vectors are candidates of; None: of these.
    """

    ids: NDArray[np.int64]
    parts: tuple[tuple[int, int], ...] = ()
    neighbourhood: Neighbourhood | None = None
    projected: bool = False
    flat_index: FlatIndex | None = None
    fitted_space: Space | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def squared_norms(self) -> Floats:
        """(n,) float32: |x|^2 of every row."""
        norms = np.empty(len(self), np.float32)
        for where, vectors in self.chunks():
            checkpoint()
            np.einsum("ij,ij->i", vectors, vectors, out=norms[where])
        return norms

    @cached_property
    def space(self) -> Space:
        """Whitened space for comparing neighbours: the neighbourhood's, or fitted to these vectors."""
        if self.neighbourhood is not None:
            return self.neighbourhood.space
        if self.fitted_space is not None:
            return self.fitted_space
        return self.space_of(np.arange(len(self)))

    @cached_property
    def nearest_distances(self) -> NearestDistances:
        """Distances of images to their nearest others: of the snapshot, or of these images without one."""
        if self.neighbourhood is not None:
            return self.neighbourhood.nearest_distances(self)
        return without_snapshot(self)

    def space_of(self, rows: Rows) -> Space:
        """Return a whitened space fitted to `rows` alone, of which at most SAMPLE are read; the last few are kept."""
        if self.projected:
            return plain_space(self.dimensions)
        sampled = rows[spread_rows(len(rows), SAMPLE)]
        return self._spaces.get(sampled) or run_to_end(partial(self._fit_space, sampled), _fitting)

    def _fit_space(self, sampled: Rows) -> Space:
        space = self._spaces.get(sampled)  # fitted while this query waited for its turn
        if space is None:
            space = fit_space(self.vectors(sampled), self.parts)
            self._spaces.put(sampled, space)
        return space

    @cached_property
    def _spaces(self) -> SpaceCache:
        return SpaceCache()

    def distances(self, query: Floats, rows: Rows | None = None) -> Floats:
        """Return Euclidean distances (m,) float32 of `query` (d,) to all rows or to ascending `rows`, by FAISS.

        They are sums of squared differences: 0 for an equal vector.
        """
        if rows is not None and len(rows) >= MOST * len(self):
            return self.distances(query)[rows]
        total = len(self) if rows is None else len(rows)
        squared = np.empty(total, np.float32)

        def compare(where: slice, vectors: Floats) -> None:
            fill_squared_distances(query, vectors, squared[where])

        for_each(self.chunks(rows), compare, min(cores(), total // ROWS_PER_THREAD))
        return np.sqrt(squared, out=squared)


def fill_squared_distances(query: Floats, vectors: Floats, squared: Floats) -> None:
    """Write the squared distances of a query (d,) to vectors (n, d), C-contiguous, into `squared` (n,)."""
    if len(query) in UNEVEN:
        differences = vectors - query
        np.einsum("ij,ij->i", differences, differences, out=squared)
    elif len(vectors):
        pointers = (faiss.swig_ptr(array) for array in (squared, query, vectors))
        faiss.fvec_L2sqr_ny(*pointers, len(query), len(vectors))


@dataclass(frozen=True, eq=False)
class RankingList:
    """Similarities of a query to the rows that it is ranked against.

    rows: (m,) int64, ascending gallery rows.
    distances: (m,) float32, Euclidean.
    similarities: (m,) float32 in [0, 1], 1 - (d - d_min) / (d_max - d_min); all 1 if d_max = d_min
        (Huang et al. 2012, section 2.1).
    population: ascending rows that the caller may see, the same for all queries; None: all of the gallery.
    passable: ascending rows that relevance may flow through, those of the list among them; None: those of the list.
    sample: ascending rows of the list that are an even sample of a longer one, of which the list has the best beside
        them; None: the list is whole.
    """

    rows: Rows
    distances: Floats
    similarities: Floats
    population: Rows | None = None
    passable: Rows | None = None
    sample: Rows | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def evenly(self) -> Rows:
        """Ascending rows that are as the whole list is: all of it, or the sample."""
        return self.rows if self.sample is None else self.sample


def similarities(distances: Floats) -> Floats:
    """Convert distances to similarities, Huang et al. 2012, section 2.1, with the same shape and dtype."""
    if len(distances) == 0:
        return distances
    nearest, farthest = distances.min(), distances.max()
    if nearest == farthest:
        return np.ones_like(distances)
    return np.asarray(1.0 - (distances - nearest) / (farthest - nearest))


def rank(query: Floats, gallery: Gallery, rows: Rows | None = None) -> RankingList:
    """Rank the rows of a gallery by their distance to a query.

    Parameters
    ----------
    query : (d,) float32
        Normalised query vector.
    gallery : Gallery
        Vectors to rank.
    rows : (m,) int64, optional
        Rows to rank, ascending; all by default.
    """
    distances = gallery.distances(query, rows)
    population, rows = rows, np.arange(len(gallery)) if rows is None else rows
    return RankingList(rows, distances, similarities(distances), population)


def merge_nearest(rankings: Sequence[RankingList]) -> RankingList:
    """Merge lists over the same rows: an image is as far as from the nearest query."""
    if len(rankings) == 1:
        return rankings[0]
    distances = np.minimum.reduce([ranking.distances for ranking in rankings])
    return replace(rankings[0], distances=distances, similarities=similarities(distances))


def top_k(scores: Scores, count: int) -> NDArray[np.int64]:
    """Return the indices of the `count` largest scores, best first, ties by ascending index. O(n + k log k)."""
    count = min(count, len(scores))
    if count <= 0:
        return np.empty(0, np.int64)
    if 2 * count > len(scores):  # selecting them first would take longer
        return _descending(scores)[:count]
    large = large_values(scores, count)
    if large is not None and count <= len(large) < len(scores):
        return large[top_k(scores[large], count)]
    threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
    best = np.flatnonzero(scores >= threshold)
    surplus = len(best) - count
    if surplus:
        best = np.delete(best, np.flatnonzero(scores[best] == threshold)[-surplus:])
    checkpoint()
    return best[_descending(scores[best])]


def bottom_k(scores: Scores, count: int) -> NDArray[np.int64]:
    """Return the indices of the `count` smallest scores, worst first: the end of the order of `top_k`, reversed."""
    return len(scores) - 1 - top_k(-scores[::-1], count)


def _descending(scores: Scores) -> NDArray[np.int64]:
    """Return the indices of all scores, best first, ties by ascending index."""
    if scores.dtype != np.float32:
        return np.argsort(-scores, kind="stable")
    # The order of float32 is that of their bits, except for negative ones; with the index in the lower half of one
    # integer, numpy's vectorised sort of integers replaces a stable sort twenty times slower.
    bits = (np.float32(0.0) - scores).view(np.int32)
    keys = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys <<= 32
    keys |= np.arange(len(scores))
    keys.sort()
    keys &= 0xFFFFFFFF
    return keys


def take(ranking: RankingList, indices: NDArray[np.int64]) -> RankingList:
    """Return the list with only the ascending `indices`; similarities stay those of the full list."""
    rows, distances = ranking.rows[indices], ranking.distances[indices]
    return RankingList(rows, distances, ranking.similarities[indices], ranking.population)
