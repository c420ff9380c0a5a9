"""Similarity ranking lists: how alike every image of a gallery is to one query."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.collection.gallery import Gallery, Rows

REFINED = 1000  # best places whose distances are recomputed without cancellation


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
        head = best(-distances, min(REFINED, len(rows)))
        distances[head] = gallery.exact_distances(query, rows[head])
    return RankingList(rows, distances, similarities(distances))


def best(scores: NDArray[np.floating], count: int) -> NDArray[np.int64]:
    """Places of the `count` largest scores, best first; equal scores in ascending place. O(n + k log k)."""
    count = min(count, len(scores))
    if count <= 0:
        return np.empty(0, np.int64)
    if count == len(scores):
        return np.argsort(-scores, kind="stable")
    threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > threshold)
    ties = np.flatnonzero(scores == threshold)[: count - len(above)]
    chosen = np.concatenate([above, ties])
    return chosen[np.lexsort((chosen, -scores[chosen]))]
