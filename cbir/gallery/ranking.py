"""Similarity ranking lists: how alike every image of a gallery is to one query."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import CHUNK, Gallery, Rows

REFINED = 1000  # best places whose distances are recomputed without cancellation
CANCELLATION = 4e-6  # of the squared norms: what a squared distance in float32 may be wrong by


@dataclass(frozen=True, eq=False)
class RankingList:
    """A query's similarities to the rows it is ranked against.

    rows: (m,) int64, ascending gallery rows.
    distances: (m,) float32, Euclidean.
    similarities: (m,) float32 in [0, 1], 1 - (d - d_min) / (d_max - d_min); all 1 where d_max = d_min
        (Huang et al. 2012, section 2.1).
    """

    rows: Rows
    distances: NDArray[np.float32]
    similarities: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.rows)


def similarities(distances: NDArray[np.float32]) -> NDArray[np.float32]:
    """Similarities of distances, Huang et al. 2012, section 2.1; shape and dtype are kept."""
    if len(distances) == 0:
        return distances
    nearest, farthest = distances.min(), distances.max()
    if nearest == farthest:
        return np.ones_like(distances)
    return 1.0 - (distances - nearest) / (farthest - nearest)


def rank(query: NDArray[np.float32], gallery: Gallery, rows: Rows | None = None) -> RankingList:
    """The ranking list of `query` (d,) over all rows of the gallery, or over the named ones (ascending)."""
    distances = gallery.distances(query, rows)
    if rows is None:
        rows = np.arange(len(gallery), dtype=np.int64)
    if len(rows):
        refined = top_k(-distances, min(REFINED, len(rows)))
        if _within_rounding(query, distances, gallery.squared_norms[rows]):
            refined = np.arange(len(rows))
        for start in range(0, len(refined), CHUNK):
            places = refined[start : start + CHUNK]
            distances[places] = gallery.exact_distances(query, rows[places])
    return RankingList(rows, distances, similarities(distances))


def merge_nearest(rankings: Sequence[RankingList]) -> RankingList:
    """One list of several over the same rows: an image is as far as from the nearest of the queries."""
    if len(rankings) == 1:
        return rankings[0]
    distances = np.minimum.reduce([ranking.distances for ranking in rankings])
    return RankingList(rankings[0].rows, distances, similarities(distances))


def _within_rounding(
    query: NDArray[np.float32], distances: NDArray[np.float32], squared_norms: NDArray[np.float32]
) -> bool:
    """Whether all distances differ by no more than |q|^2 - 2 q.x + |x|^2 is rounded by: images all alike."""
    rounding = CANCELLATION * (float(query @ query) + float(squared_norms.max()))
    return float(distances.max()) ** 2 - float(distances.min()) ** 2 <= rounding


def top_k(scores: NDArray[np.floating], count: int) -> NDArray[np.int64]:
    """Places of the `count` largest scores, best first; equal scores in ascending place. O(n + k log k)."""
    count = min(count, len(scores))
    if count <= 0:
        return np.empty(0, np.int64)
    if count == len(scores):
        return _descending(scores)
    threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
    chosen = np.flatnonzero(scores >= threshold)
    surplus = len(chosen) - count
    if surplus:
        chosen = np.delete(chosen, np.flatnonzero(scores[chosen] == threshold)[-surplus:])
    return chosen[_descending(scores[chosen])]


def bottom_k(scores: NDArray[np.floating], count: int) -> NDArray[np.int64]:
    """Places of the `count` smallest scores, worst first: the end of the order of `best`, backwards."""
    return len(scores) - 1 - top_k(-scores[::-1], count)


def _descending(scores: NDArray[np.floating]) -> NDArray[np.int64]:
    """Places of all scores, best first; equal scores in ascending place."""
    if scores.dtype != np.float32:
        return np.argsort(-scores, kind="stable")
    # The order of float32 is that of their bits, but for negative ones; with the place below them in one
    # integer, numpy's vectorised sort of integers replaces a stable sort twenty times slower.
    bits = (np.float32(0.0) - scores).view(np.int32)
    keys = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys <<= 32
    keys |= np.arange(len(scores))
    keys.sort()
    keys &= 0xFFFFFFFF
    return keys


def take(ranking: RankingList, places: NDArray[np.int64]) -> RankingList:
    """The list cut down to ascending `places`; similarities stay those of the whole list."""
    return RankingList(ranking.rows[places], ranking.distances[places], ranking.similarities[places])
