"""Late interaction: similarity of a set of query vectors to groups of vectors, by the best vector for each query.

MaxSim of Khattab and Zaharia 2020 (ColBERT, equation 3), divided by the number of query vectors.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import CHUNK, Doubles, Floats, Rows, VectorBlocks
from cbir.system.threads import cores, for_each

DIGITS = 9  # of similarities: equal groups are equal, however their vectors lie in memory


def max_similarity(
    queries: Floats, gallery: VectorBlocks, rows: Rows, groups: NDArray[np.int64], scale: float
) -> Doubles:
    """Return the mean over the queries of the similarity to the nearest vector of each group.

    Exact, in blocks: no more than CHUNK rows per thread are in memory beside the gallery.

    Parameters
    ----------
    queries : (q, d) float32
        Query vectors, one at least.
    gallery : VectorBlocks
        Vectors of d dimensions.
    rows : (m,) int64
        Rows of the gallery to compare with.
    groups : (m,) int64
        Group of each row: 0 to g - 1, each with one row at least.
    scale : float
        Squared length of a typical vector, see `similarity`.

    Returns
    -------
    (g,) float64
        At most 1; 1 if a group holds all queries.
    """
    order = np.argsort(groups, kind="stable")
    rows, groups = rows[order], groups[order]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    scores = np.empty(len(starts))

    def compare(where: slice, stop: int) -> None:
        best = np.full((where.stop - where.start, len(queries)), -np.inf)
        for start in range(starts[where.start], stop, CHUNK):
            piece = slice(start, min(start + CHUNK, stop))
            members = groups[piece] - where.start
            firsts = np.flatnonzero(np.diff(members, prepend=-1))
            largest = np.maximum.reduceat(similarity(gallery.vectors(rows[piece]), queries, scale), firsts)
            best[members[firsts]] = np.maximum(best[members[firsts]], largest)
        scores[where] = best.mean(axis=1)

    for_each(_whole_groups(starts, len(rows)), compare, cores())
    return scores.round(DIGITS)


def _whole_groups(starts: NDArray[np.int64], total: int) -> Iterator[tuple[slice, int]]:
    """Yield ranges of groups with some CHUNK rows together, and the end of their rows."""
    first = 0
    while first < len(starts):
        last = max(int(np.searchsorted(starts, starts[first] + CHUNK)), first + 1)
        yield slice(first, last), int(starts[last]) if last < len(starts) else total
        first = last


def best_matches(
    queries: Floats, gallery: VectorBlocks, rows: Rows, scale: float
) -> tuple[NDArray[np.int64], Doubles]:
    """Return for each query the row with the nearest vector, the first of equal ones.

    Parameters
    ----------
    queries, gallery, scale
        As for `max_similarity`.
    rows : (m,) int64
        Rows of one group, one at least.

    Returns
    -------
    rows : (q,) int64
    similarities : (q,) float64
    """
    best_rows, best = np.full(len(queries), rows[0]), np.full(len(queries), -np.inf)
    for start in range(0, len(rows), CHUNK):
        piece = rows[start : start + CHUNK]
        values = similarity(gallery.vectors(piece), queries, scale).round(DIGITS)
        nearest = values.argmax(axis=0)
        largest = values[nearest, np.arange(len(queries))]
        better = largest > best
        best_rows[better], best[better] = piece[nearest[better]], largest[better]
    return best_rows, best


def similarity(vectors: Floats, queries: Floats, scale: float) -> Doubles:
    """Return 1 - |x - q|^2 / (2 scale): with vectors of squared length `scale`, the cosine.

    In double precision, since the difference of nearly equal numbers loses the digits of single precision.

    Parameters
    ----------
    vectors : (m, d) float32
    queries : (q, d) float32
    scale : float
        Mean squared length of the collection's vectors; 0 for a collection of zero vectors.

    Returns
    -------
    (m, q) float64
    """
    x, q = vectors.astype(np.float64), queries.astype(np.float64)
    squared = -2.0 * (x @ q.T)
    squared += np.einsum("ij,ij->i", x, x)[:, None]
    squared += np.einsum("ij,ij->i", q, q)
    np.maximum(squared, 0.0, out=squared)
    squared /= -2.0 * scale if scale > 0 else -1.0
    squared += 1.0
    return squared
