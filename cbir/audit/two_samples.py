"""Comparison of two sets of images: two statistics with one permutation test.

The maximum mean discrepancy (Gretton et al. 2012, A kernel two-sample test) sees a shift of many images, the novelty
of the newer ones, ranked as in conformal prediction (Vovk et al. 2005), a few of a kind that the others lack.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from cbir.gallery.vector_blocks import Floats

NEIGHBOUR = 3  # the older image whose likeness counts: a third of a kind is none of its own
PERMUTATIONS = 999
AT_ONCE = 250  # permutations: memory

Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]


def compare_samples(
    units: Floats, block: Codes, newer: NDArray[np.bool_], permutations: int = PERMUTATIONS, seed: int = 0
) -> float:
    """Return the p-value of the hypothesis that the newer images are drawn as the others are.

    Parameters
    ----------
    units : (n, d) float32
        Vectors of length 1.
    block : (n,) int64
        Images of one block, as of one patient, stay together when images are exchanged; all are in the same set.
    newer : (n,) bool
        True for the newer images.
    permutations : int
        Number of random exchanges; no p-value is below 1 / (permutations + 1).
    seed : int
        Of the exchanges.

    Returns
    -------
    float
        1 if a set has fewer than two blocks.
    """
    if min(len(np.unique(block[newer])), len(np.unique(block[~newer]))) < 2:
        return 1.0
    cosines = np.asarray(units @ units.T, np.float32)
    kernel, surprise = gaussian_kernel(cosines), novelty_scores(cosines, block, ~newer)
    generator = np.random.default_rng(seed)
    parts = [set_statistics(kernel, surprise, newer[:, None].astype(np.float32))]
    for start in range(0, permutations, AT_ONCE):
        count = min(AT_ONCE, permutations - start)
        exchanged = exchange_blocks(block, int(np.count_nonzero(newer)), count, generator)
        parts.append(set_statistics(kernel, surprise, exchanged))
    # Each statistic as its rank among its exchanges: one with a long tail does not hide the other.
    above = np.stack([permutations + 1 - rankdata(each, "min") for each in np.concatenate(parts, axis=1)])
    smallest = above.min(axis=0)
    return float(np.count_nonzero(smallest <= smallest[0]) / (permutations + 1))


def gaussian_kernel(cosines: Floats) -> Floats:
    """Return the kernel (n, n) whose width is the median distance, without the images' likeness to themselves."""
    squared = np.maximum(2.0 - 2.0 * cosines, 0.0)
    width = max(float(np.median(squared)), 1e-6)
    kernel = np.exp(-squared / width).astype(np.float32)
    np.fill_diagonal(kernel, 0.0)
    return np.asarray(kernel, np.float32)


def novelty_scores(cosines: Floats, block: Codes, older: NDArray[np.bool_]) -> Numbers:
    """Return a score (n,) for each image, high if it is unlike the older images of other blocks, with a mean of one.

    The score is the negative logarithm of the rank of its likeness: few images unlike the others weigh much.

    Parameters
    ----------
    cosines : (n, n) float32
    block : (n,) int64
        Images of one block are not compared with each other.
    older : (n,) bool
        True for the older images.
    """
    others = np.where(block[:, None] == block[older], -1.0, cosines[:, older])
    position = others.shape[1] - min(NEIGHBOUR, others.shape[1])
    likeness = np.partition(others, position, axis=1)[:, position]
    return np.asarray(-np.log(rankdata(likeness) / (len(likeness) + 1)))


def set_statistics(kernel: Floats, surprise: Numbers, newer: Floats) -> Numbers:
    """Return the discrepancy and the difference in mean surprise, (2, b), for b divisions into sets.

    Parameters
    ----------
    kernel : (n, n) float32
    surprise : (n,) float64
    newer : (n, b) float32
        Divisions, 1 for the newer images.
    """
    inside = newer.sum(axis=0)
    weights = newer / inside - (1.0 - newer) / (len(newer) - inside)
    discrepancy = np.einsum("nb,nb->b", weights, kernel @ weights)
    return np.stack([discrepancy, surprise @ weights]).astype(np.float64)


def exchange_blocks(block: Codes, count: int, permutations: int, generator: np.random.Generator) -> Floats:
    """Return divisions (n, permutations) into sets, 1 for the newer.

    Parameters
    ----------
    block : (n,) int64
        Images of one block are in the same set.
    count : int
        Newer images, about.
    permutations : int
        Number of divisions.
    generator : numpy.random.Generator
    """
    names, sizes = np.unique(block, return_counts=True)
    of_image = np.searchsorted(names, block)
    divisions = np.empty((len(block), permutations), np.float32)
    for number in range(permutations):
        order = generator.permutation(len(names))
        nearest = int(np.abs(np.cumsum(sizes[order]) - count).argmin()) + 1
        newer = np.zeros(len(names), np.float32)
        newer[order[: min(nearest, len(names) - 1)]] = 1.0
        divisions[:, number] = newer[of_image]
    return divisions
