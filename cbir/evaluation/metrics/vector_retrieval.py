"""Retrieval quality of labelled vectors, all queries against a gallery at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.metrics.average_precision import average_precision

BLOCK = 256  # queries


@dataclass(frozen=True)
class RetrievalScores:
    """Means over the queries that have a relevant image.

    ap: (n,) average precision of each query, NaN without a relevant image.
    """

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
    """Rank a gallery by Euclidean distance to each query; images of the query's label are relevant.

    Parameters
    ----------
    queries, gallery : (n, d) and (m, d) float32
    query_labels, gallery_labels : (n,) and (m,) int64
    query_groups, gallery_groups : (n,) and (m,) int64, optional
        Patients, or image numbers: images of the query's own group are neither hit nor miss.

    Returns
    -------
    RetrievalScores
    """
    lengths = (gallery**2).sum(axis=1)
    ap, first, tenth = (np.full(len(queries), np.nan) for _ in range(3))
    for start in range(0, len(queries), BLOCK):
        block = slice(start, min(start + BLOCK, len(queries)))
        distances = lengths - 2.0 * (queries[block] @ gallery.T)
        if query_groups is not None and gallery_groups is not None:
            distances[query_groups[block, None] == gallery_groups] = np.inf
        order = np.argsort(distances, axis=1, kind="stable")
        counted = np.isfinite(np.take_along_axis(distances, order, axis=1))
        hits = (gallery_labels[order] == query_labels[block, None]) & counted
        answerable = hits.any(axis=1)
        rows = np.arange(len(queries))[block][answerable]
        ap[rows] = average_precision(hits[answerable])
        first[rows] = hits[answerable, 0]
        tenth[rows] = hits[answerable, :10].mean(axis=1)
    return RetrievalScores(_mean(ap), _mean(first), _mean(tenth), ap)


def _mean(values: NDArray[np.float64]) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
