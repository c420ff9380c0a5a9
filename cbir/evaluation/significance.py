"""How sure one can be of a mean over queries, and of a difference between two runs."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cbir.threads import OneBlasThread

RESAMPLES = 10_000
PORTION = 250  # resamples at a time

Floats = NDArray[np.float64]


def bootstrap_intervals(
    values: Floats, *, share: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Floats, Floats]:
    """Percentile intervals (low, high), each (m,), of the means of the rows of `values` (m, q).

    Queries are drawn with replacement, the same ones for every row (Efron 1979; Sakai 2006 for retrieval).
    """
    generator = np.random.default_rng(seed)
    count = values.shape[1]
    with OneBlasThread():
        sums = [_counts(generator, count, many) @ values.T for many in _portions(resamples)]
    means = np.concatenate(sums) / count
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2], axis=0)
    return low, high


def _counts(generator: np.random.Generator, count: int, resamples: int) -> Floats:
    """(resamples, count): how often each of `count` queries is in each resample."""
    drawn = generator.integers(0, count, (resamples, count))
    drawn += count * np.arange(resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=resamples * count)
    return counts.reshape(resamples, count).astype(np.float64)


def randomisation_test(differences: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Two-sided p (m,) of the mean of each row of paired differences (m, q) being 0.

    Fisher's randomisation test: the signs of a query's differences are drawn at random; p is the share of
    draws, the observed one among them, whose mean is as far from 0 (Smucker, Allan & Carterette 2007).
    """
    generator = np.random.default_rng(seed)
    observed = np.abs(differences.sum(axis=1))
    nearly = observed * (1 - 1e-12)  # a sum in another order is the same sum
    extreme = np.ones(len(differences))
    with OneBlasThread():
        for many in _portions(resamples):
            signs = generator.integers(0, 2, (many, differences.shape[1]), np.int8) * 2.0 - 1.0
            extreme += (np.abs(signs @ differences.T) >= nearly).sum(axis=0)
    return extreme / (resamples + 1)


def holm(p: Floats) -> Floats:
    """p values (m,) corrected for being so many (Holm 1979), in their order.

    The smallest is multiplied by m, the next by m - 1, ...; none ends below a smaller one, or above 1.
    """
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(corrected, 1.0)


def _portions(total: int) -> Iterator[int]:
    for start in range(0, total, PORTION):
        yield min(PORTION, total - start)
