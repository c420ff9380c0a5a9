"""Exact comparison of queries with vectors in memory."""

from collections.abc import Sequence

import faiss
import numpy as np

from cbir.gallery.vector_blocks import Floats
from cbir.store.index.port import Neighbours, Numbers

SLACK = 8  # vectors found besides: sums in another order may exchange equal distances


def nearest_vectors(queries: Floats, numbers: Numbers, vectors: Floats, k: int) -> list[Neighbours]:
    """Return the k nearest of vectors to each query, or all where there are fewer.

    Parameters
    ----------
    queries : (q, d) float32
    numbers : (n,) int64
        Images of the vectors, ascending.
    vectors : (n, d) float32
    k : int
    """
    count = min(k + SLACK, len(numbers))
    if not count:
        return [Neighbours(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
    queries = np.ascontiguousarray(queries, np.float32)
    _, rows = faiss.knn(queries, np.ascontiguousarray(vectors, np.float32), count)
    return [
        _ordered(query, numbers[query_rows], vectors[query_rows], k)
        for query, query_rows in zip(queries, rows, strict=True)
    ]


def _ordered(query: Floats, numbers: Numbers, vectors: Floats, k: int) -> Neighbours:
    distances = np.sqrt(np.square(vectors - query).sum(axis=1))
    order = np.lexsort((numbers, distances))[:k]
    return Neighbours(numbers[order], distances[order])


def join_neighbours(answers: Sequence[Neighbours], k: int) -> Neighbours:
    """Return the k nearest of several answers to the same query, which share no image."""
    numbers = np.concatenate([answer.numbers for answer in answers])
    distances = np.concatenate([answer.distances for answer in answers])
    order = np.lexsort((numbers, distances))[:k]
    return Neighbours(numbers[order], distances[order])
