"""Nearest images that are of other patients, and no copies."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn import EXACT, compare_all
from cbir.gallery.knn_lists import nearest_in_lists, sort_into_lists
from cbir.gallery.vector_blocks import Floats
from cbir.gallery.whitening import plain_space

SPARE = 45  # neighbours beyond those asked for: slices of one patient, and copies, are left out


@dataclass(frozen=True, eq=False)
class IndependentNeighbours:
    """The nearest images of other blocks for each of n images, nearest first.

    rows: (n, k) int64; -1 if fewer were found. distances: (n, k) float32, one minus the cosine; infinite without one.
    """

    rows: NDArray[np.int64]
    distances: Floats


def find_independent(units: Floats, block: NDArray[np.int64], k: int) -> IndependentNeighbours:
    """Find the nearest images of other blocks.

    Parameters
    ----------
    units : (n, d) float32
        Vectors of length 1.
    block : (n,) int64
        Images of the same block are no neighbours of each other.
    k : int
        Number of neighbours. Fewer are found for images with more than `SPARE` nearer images of their own block.
    """
    count = len(units)
    candidates = max(min(k + SPARE, count - 1), 1)
    if count > EXACT:
        neighbours, squared = nearest_in_lists(
            sort_into_lists(units, plain_space(units.shape[1])), candidates
        )
    else:
        neighbours, squared = compare_all(units, candidates)
    other = (neighbours >= 0) & (block[neighbours] != block[:, None]) if count else neighbours >= 0
    order = np.argsort(~other, axis=1, kind="stable")[:, :k]
    independent = np.take_along_axis(other, order, axis=1)
    rows = np.where(independent, np.take_along_axis(neighbours, order, axis=1), -1).astype(np.int64)
    distances = np.where(independent, np.take_along_axis(squared, order, axis=1) / 2, np.inf).astype(
        np.float32
    )
    return IndependentNeighbours(rows, distances)
