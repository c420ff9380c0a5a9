"""Directions that tell a collection's images apart, learned from its nearest neighbours without labels.

What an image and its nearest neighbours differ in says little about its kind. Such directions are damped, and
principal directions of what is left are weighted by their variance: the learned whitening of Radenovic, Tolias & Chum
2016 (CNN image retrieval learns from BoW; after Mikolajczyk & Matas 2007), with neighbours as its matching pairs.
"""

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn import compare_all

NEAREST = 20  # neighbours of an image; a pair of images counts if each is among the other's
POWER = 0.5  # of the scatter of pairs to divide by: it is whitened
FLOOR = (
    0.3  # added to its eigenvalues, in units of their mean, so that those near 0 do not outweigh all others
)
EMPHASIS = 0.2  # power of its variance that weighs a direction
LEAST = 1e-12  # a smaller scatter is none

Doubles = NDArray[np.float64]


def learn_directions(values: NDArray[np.float32], variances: Doubles, count: int) -> Doubles:
    """Learn directions in which neighbours agree.

    Parameters
    ----------
    values : (n, w) float32
        Principal components of a sample of the collection, those with the greatest variance first.
    variances : (w,) float64
        Variances of the components over the collection, descending.
    count : int
        Number of directions to learn, at most w.

    Returns
    -------
    (w, count) float64
        Directions in the space of `values`, those that matter most first; neither orthogonal nor of length 1.
    """
    first = values[:, :count]
    lengths = np.sqrt(np.einsum("ij,ij->i", first, first))
    neighbours, _ = compare_all(first / np.maximum(lengths, np.float32(LEAST))[:, None], NEAREST)
    scatter = pair_scatter(values, neighbours)
    spread, axes = np.linalg.eigh(scatter / max(float(np.trace(scatter)) / len(scatter), LEAST))
    damping = (axes * (np.maximum(spread, 0.0) + FLOOR) ** -POWER) @ axes.T
    remaining, directions = np.linalg.eigh(damping * variances @ damping)
    remaining, directions = np.maximum(remaining[::-1][:count], 0.0), directions[:, ::-1][:, :count]
    weights = (remaining / max(float(remaining[0]), LEAST)) ** EMPHASIS
    return np.asarray(damping @ directions * weights)


def pair_scatter(values: NDArray[np.float32], neighbours: NDArray[np.int32]) -> Doubles:
    """Return the mean over images of the mean scatter of their differences from mutual neighbours.

    Parameters
    ----------
    values : (n, w) float32
        Values of n images.
    neighbours : (n, k) int32
        Their nearest images, -1 where there are fewer.

    Returns
    -------
    (w, w) float64
        Mean of (x - y)(x - y)^T; 0 without pairs.
    """
    from scipy import sparse  # only now: a service starts without it

    images, places = np.nonzero(neighbours >= 0)
    shape = (len(values), len(values))
    joined = sparse.csr_matrix((np.ones(len(images)), (images, neighbours[images, places])), shape=shape)
    mutual = joined.multiply(joined.T).tocsr()
    counts = np.asarray(mutual.sum(axis=1)).ravel()
    with_pairs = int(np.count_nonzero(counts))
    weights = sparse.diags(1.0 / np.maximum(counts, 1.0) / max(with_pairs, 1)) @ mutual
    weights = weights + weights.T
    # The sum of w (x - y)(x - y)^T over pairs is X^T (D - W) X, where D has the sums of the rows of W.
    laplacian = sparse.diags(np.asarray(weights.sum(axis=1)).ravel()) - weights
    return np.asarray(values.T.astype(np.float64) @ (laplacian @ values))
