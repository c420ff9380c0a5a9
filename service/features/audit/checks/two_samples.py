"""Comparison of two sets of images: three statistics with one permutation test.

The maximum mean discrepancy (Gretton et al. 2012, A kernel two-sample test) sees a shift of many images, the novelty
of the newer ones, ranked as in conformal prediction (Vovk et al. 2005), a few that are unlike all others, and the
shares of newer images among neighbours (after Schilling 1986, Multivariate two-sample tests based on nearest
neighbors) a few that resemble each other, even where there are others like them.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from cbir.gallery.vector_blocks import Floats

NEIGHBOUR = 3  # the older image whose likeness counts: a third of a kind is none of its own
NEAR_BLOCKS = 5  # whose shares of newer ones count
POWER = 4  # of these shares: five newer neighbours of one image tell more than one of each of five
ROUNDING = 1e-6  # of lengths and cosines
DECIMALS = 6  # of statistics: of images that are all alike they differ by rounding
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
    statistics = SetStatistics(units, block, ~newer)
    generator = np.random.default_rng(seed)
    parts = [statistics(newer[:, None].astype(np.float32))]
    for start in range(0, permutations, AT_ONCE):
        count = min(AT_ONCE, permutations - start)
        parts.append(statistics(exchange_blocks(block, int(np.count_nonzero(newer)), count, generator)))
    # Each statistic as its rank among its exchanges: one with a long tail does not hide the other.
    above = np.stack([permutations + 1 - rankdata(each, "min") for each in np.concatenate(parts, axis=1)])
    smallest = above.min(axis=0)
    return float(np.count_nonzero(smallest <= smallest[0]) / (permutations + 1))


class SetStatistics:
    """Discrepancy, difference in mean novelty, and neighbourhood of the newer images, for divisions into two sets.

    Parameters
    ----------
    units : (n, d) float32
        Vectors of length 1.
    block : (n,) int64
        Images of one block are in the same set, and are no neighbours of each other.
    older : (n,) bool
        True for the images that novelty is measured against.
    """

    def __init__(self, units: Floats, block: Codes, older: NDArray[np.bool_]) -> None:
        cosines = np.asarray(units @ units.T, np.float32)
        self._kernel = gaussian_kernel(cosines)
        self._novelty = novelty_scores(cosines, block, older)
        _, self._first, self._of_image, sizes = np.unique(
            block, return_index=True, return_inverse=True, return_counts=True
        )
        self._weights = (1.0 / sizes[self._of_image]).astype(np.float32)
        centred = units - units.mean(axis=0)
        centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), ROUNDING)
        self._near = nearest_blocks(centred @ centred.T, self._of_image)

    def __call__(self, newer: Floats) -> Numbers:
        """Return the three statistics, (3, b), of b divisions (n, b), 1 for the newer images."""
        inside = newer.sum(axis=0)
        weights = newer / inside - (1.0 - newer) / (len(newer) - inside)
        discrepancy = np.einsum("nb,nb->b", weights, self._kernel @ weights)
        each = np.stack([discrepancy, self._novelty @ weights, self._neighbourhood(newer)])
        return np.asarray(np.round(each, DECIMALS), np.float64)

    def _neighbourhood(self, newer: Floats) -> Numbers:
        """Return the mean (b,), over newer blocks and their images, of the power of the share of newer neighbours."""
        newer_blocks = newer[self._first]
        shares = sum(newer_blocks[column] for column in self._near.T) / self._near.shape[1]
        total = np.einsum("nb,nb,n->b", shares**POWER, newer, self._weights)
        return np.asarray(total / newer_blocks.sum(axis=0), np.float64)


def gaussian_kernel(cosines: Floats) -> Floats:
    """Return the kernel (n, n) whose width is the median distance, without the images' likeness to themselves."""
    squared = np.maximum(2.0 - 2.0 * cosines, 0.0)
    width = max(float(np.median(squared)), 1e-6)
    kernel = np.exp(-squared / width).astype(np.float32)
    np.fill_diagonal(kernel, 0.0)
    return np.asarray(kernel, np.float32)


def novelty_scores(cosines: Floats, block: Codes, older: NDArray[np.bool_]) -> Numbers:
    """Return a score (n,) for each image, high if it is unlike the older images of other blocks.

    The score is the squared logarithm of the rank of its likeness: few images unlike the others weigh much.

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
    return np.asarray(np.log(rankdata(likeness) / (len(likeness) + 1)) ** 2)


def nearest_blocks(cosines: Floats, of_image: Codes) -> Codes:
    """Return for each image the other blocks (n, k) that have the images most like it.

    Parameters
    ----------
    cosines : (n, n) float32
    of_image : (n,) int64
        Numbers of the blocks, from 0 to at least 1; k is NEAR_BLOCKS, or their number without one if that is less.
    """
    order = np.argsort(of_image, kind="stable")
    starts = np.searchsorted(of_image[order], np.arange(of_image.max() + 1))
    likeness = np.maximum.reduceat(cosines[:, order], starts, axis=1)
    # Among equals, as in images that are all alike, the first would be the older ones.
    likeness += ROUNDING * np.random.default_rng(0).random(likeness.shape, np.float32)
    likeness[np.arange(len(of_image)), of_image] = -np.inf
    k = min(NEAR_BLOCKS, len(starts) - 1)
    return np.asarray(np.argpartition(likeness, -k, axis=1)[:, -k:], np.int64)


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
