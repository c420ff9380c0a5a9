"""k nearest neighbours of every image of a gallery."""

from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.cancellation import checkpoint
from cbir.gallery.knn_lists import nearest_in_lists, sort_into_lists
from cbir.gallery.vector_blocks import Floats
from cbir.gallery.whitening import Space

NEAREST = 8  # neighbours of each image
EXACT = 10_000  # images up to which all are compared with all
BLOCK = 2048  # rows searched for at a time


@dataclass(frozen=True, eq=False)
class NearestNeighbours:
    """n images, each with its k nearest others, nearest first.

    rows: (n, k) int32; -1 if there are fewer. squared: (n, k) float32, squared distances within the space, from 0 to
    4, infinite if there are fewer. lengths: (n,) float32, see `Space.transform`.
    """

    space: Space
    rows: NDArray[np.int32]
    squared: Floats
    lengths: Floats


def find_neighbours(vectors: Floats, space: Space) -> NearestNeighbours:
    """Find the neighbours of normalised vectors (n, d) within a whitened space; in a large gallery nearly all.

    Deterministic. In a large gallery about three in a hundred are not the nearest but nearly so.
    """
    count = len(vectors)
    if count > EXACT:
        lists = sort_into_lists(vectors, space)
        return NearestNeighbours(space, *nearest_in_lists(lists, NEAREST), lists.lengths)
    units, lengths = space.transform(vectors)
    return NearestNeighbours(space, *compare_all(units, NEAREST), lengths)


def compare_all(units: Floats, nearest: int) -> tuple[NDArray[np.int32], Floats]:
    """Find the `nearest` neighbours of positions (n, d), all compared with all.

    Returns rows (n, nearest) int32 and squared distances (n, nearest) float32, as in `NearestNeighbours`.
    """
    rows = np.full((len(units), nearest), -1, np.int32)
    squared = np.full((len(units), nearest), np.inf, np.float32)
    if len(units) > 1:
        # One thread: a process forked after faiss has used several would wait for them forever.
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        try:
            _compare_blocks(units, rows, squared)
        finally:
            faiss.omp_set_num_threads(threads)
    return rows, squared


def _compare_blocks(units: Floats, rows: NDArray[np.int32], squared: Floats) -> None:
    """Fill rows and squared distances for two positions (n, d) or more."""
    count = len(units)
    index = faiss.IndexFlatL2(units.shape[1])
    index.add(units)
    k = min(rows.shape[1], count - 1)
    for start in range(0, count, BLOCK):
        checkpoint()
        block = slice(start, min(start + BLOCK, count))
        distances, candidates = index.search(units[block], k + 1)
        query_rows = np.arange(block.start, block.stop)[:, None]
        # An image is its own nearest, unless copies of it come first.
        order = np.argsort(candidates == query_rows, axis=1, kind="stable")[:, :k]
        rows[block, :k] = np.take_along_axis(candidates, order, axis=1)
        squared[block, :k] = np.take_along_axis(distances, order, axis=1)
    squared[rows < 0] = np.inf
    np.maximum(squared, 0.0, out=squared)
