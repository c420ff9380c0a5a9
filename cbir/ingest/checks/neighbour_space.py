"""Directions in which images are compared with those of a collection, and how far off each is for its neighbourhood.

The directions that searches use tell the images of a collection apart, and know nothing of other kinds. These are
principal directions of the encoder's values, divided by what images differ in from their nearest ones.
"""

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats, Rows, spread_rows
from cbir.system.threads import OneBlasThread

NEIGHBOURS = 3
FITTED_ON = 2500  # images that directions are computed from
PAIRED_IN = 128  # directions that the nearest image is searched for in
RIDGE = 0.03  # of the mean variance between nearest images, added to it
SMALLEST = 1e-2  # distance, where nearest images are 1 apart in each direction: that of copies is rounding
DENSEST = 0.1  # of the median spread: copies of one image do not make all others strange
BLOCK = 250  # images compared at a time

Numbers = NDArray[np.float64]


class NeighbourSpace:
    """Compares vectors with n of a collection.

    Parameters
    ----------
    vectors : (n, d) float32
        Vectors of the collection.
    patients : (n,) int64
        Images with the same number are no neighbours of each other.
    directions : int
        Number of directions, at most.
    """

    def __init__(self, vectors: Floats, patients: Rows, directions: int) -> None:
        with OneBlasThread():
            self._mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
            principal = _principal_directions(vectors, self._mean, max(directions, PAIRED_IN))
            values = np.concatenate([(page - self._mean) @ principal for page in _pages(vectors)])
            paired, rows = (
                _unit(values[:, :PAIRED_IN], float(np.finfo(np.float32).tiny)),
                spread_rows(len(vectors), FITTED_ON),
            )
            nearest, _ = _neighbours(paired[rows], patients[rows], paired, patients, 1)
            values = values[:, :directions]
            whitening = _whitening(values[rows] - values[nearest[:, 0]])
            self._directions = principal[:, :directions] @ whitening
            self._values = values @ whitening
            rows, distances = _neighbours(self._values, patients, self._values, patients, NEIGHBOURS)
        self._spreads = np.maximum(distances[:, -1], DENSEST * np.median(distances[:, -1]))
        self.logs = self._log_ratios(rows, distances)

    def __call__(self, vectors: Floats) -> Numbers:
        """Return how far off vectors (m, d) are: a logarithm (m,) to be compared with `logs` (n,) of the collection.

        It is that of the distance to the third nearest image over the root of the mean of the same distance of the
        three, as in the local outlier factor (Breunig et al. 2000) but for the root.
        """
        values = (vectors - self._mean) @ self._directions
        return self._log_ratios(*_neighbours(values, None, self._values, None, NEIGHBOURS))

    def _log_ratios(self, rows: Rows, distances: Floats) -> Numbers:
        spread = np.maximum(self._spreads[rows].mean(axis=1, dtype=np.float64), SMALLEST)
        return np.asarray(np.log(np.maximum(distances[:, -1], SMALLEST)) - np.log(spread) / 2)


def _pages(vectors: Floats) -> list[Floats]:
    return [vectors[start : start + BLOCK] for start in range(0, len(vectors), BLOCK)]


def _unit(vectors: Floats, least: float) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, least), np.float32)


def _principal_directions(vectors: Floats, mean: Floats, count: int) -> Floats:
    """Return at most `count` directions (d, k) of length 1 with the greatest variance, in descending order."""
    from scipy.linalg import eigh  # only now: a service starts without it

    sample = vectors[spread_rows(len(vectors), FITTED_ON)] - mean
    size = len(sample)
    squares, weights = eigh(sample @ sample.T, subset_by_index=(max(size - count, 0), size - 1))
    weights = weights[:, squares > 1e-6 * max(squares[-1], np.finfo(np.float32).tiny)]
    directions = sample.T @ weights[:, ::-1]
    return np.asarray(directions / np.linalg.norm(directions, axis=0), np.float32)


def _whitening(differences: Floats) -> Floats:
    """Return the matrix (k, k) after which `differences` (n, k) have about the same variance in all directions."""
    scatter = (differences.T @ differences).astype(np.float64) / len(differences) / 2
    size = len(scatter)
    scatter += max(RIDGE * float(np.trace(scatter)) / max(size, 1), 1e-12) * np.eye(size)
    return np.linalg.inv(np.linalg.cholesky(scatter)).T.astype(np.float32)


def _neighbours(
    vectors: Floats, patients: Rows | None, others: Floats, their_patients: Rows | None, count: int
) -> tuple[Rows, Floats]:
    """Return rows (m, count) of the nearest `others` of other patients, and their distances, ascending."""
    squares = np.einsum("ij,ij->i", others, others)
    rows, distances = np.empty((len(vectors), count), np.int64), np.empty((len(vectors), count), np.float32)
    for start in range(0, len(vectors), BLOCK):
        page = slice(start, start + BLOCK)
        block = vectors[page]
        products = block @ others.T
        squared = squares - 2 * products
        if patients is not None and their_patients is not None:
            squared[patients[page, None] == their_patients] = np.inf
        near = np.argpartition(squared, count - 1, axis=1)[:, :count]
        ordered = np.take_along_axis(squared, near, axis=1)
        order = np.argsort(ordered, axis=1)
        rows[page] = np.take_along_axis(near, order, axis=1)
        lengths = np.einsum("ij,ij->i", block, block)[:, None]
        distances[page] = np.sqrt(np.maximum(np.take_along_axis(ordered, order, axis=1) + lengths, 0))
    return rows, distances
