"""How well vectors retrieve their class: queries against a gallery, all at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 256  # queries


@dataclass(frozen=True)
class RetrievalScores:
    """Means over the queries that have anything to find. ap: (n,) average precision of each, NaN where nothing."""

    map: float
    p_at_1: float
    p_at_10: float
    ap: NDArray[np.float64]


def evaluate_vectors(
    queries: NDArray[np.float32],
    query_labels: NDArray[np.int64],
    gallery: NDArray[np.float32],
    gallery_labels: NDArray[np.int64],
    query_groups: NDArray[np.int64] | None = None,
    gallery_groups: NDArray[np.int64] | None = None,
) -> RetrievalScores:
    """Vectors (n, d) against (m, d) by Euclidean distance; relevant is what has the same label.

    Images of the query's own group (a patient; the image itself) are neither hit nor miss.
    """
    lengths = (gallery**2).sum(axis=1)
    ap, first, tenth = (np.full(len(queries), np.nan) for _ in range(3))
    for start in range(0, len(queries), AT_ONCE):
        block = slice(start, min(start + AT_ONCE, len(queries)))
        apart = lengths - 2.0 * (queries[block] @ gallery.T)
        if query_groups is not None and gallery_groups is not None:
            apart[query_groups[block, None] == gallery_groups] = np.inf
        order = np.argsort(apart, axis=1, kind="stable")
        counted = np.isfinite(np.take_along_axis(apart, order, axis=1))
        hits = (gallery_labels[order] == query_labels[block, None]) & counted
        found = hits.sum(axis=1)
        precision = np.cumsum(hits, axis=1) / np.arange(1, len(gallery) + 1)
        some = found > 0
        rows = np.arange(len(queries))[block][some]
        ap[rows] = ((precision * hits).sum(axis=1) / np.maximum(found, 1))[some]
        first[rows] = hits[some, 0]
        tenth[rows] = hits[some, :10].mean(axis=1)
    return RetrievalScores(_mean(ap), _mean(first), _mean(tenth), ap)


def _mean(of: NDArray[np.float64]) -> float:
    return float(np.nanmean(of)) if np.isfinite(of).any() else float("nan")
