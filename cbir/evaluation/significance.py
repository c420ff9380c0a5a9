"""Confidence intervals of means over queries, and tests of differences between runs.

The resampling is one matrix product for all runs and metrics; scipy.stats gathers every resample of every row.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cbir.system.threads import OneBlasThread

RESAMPLES = 10_000
BATCH = 250  # resamples at a time

Floats = NDArray[np.float64]


def bootstrap_intervals(
    values: Floats, *, share: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return percentile bootstrap intervals of means over queries (Efron 1979; Sakai 2006 for retrieval).

    Parameters
    ----------
    values : (m, q) float64
        A row for each metric. Queries are drawn with replacement, the same ones for every row.
    share : float
        Coverage, 0 to 1.
    resamples : int
    seed : int

    Returns
    -------
    low, high : (m,) float64
    """
    generator = np.random.default_rng(seed)
    count = values.shape[1]
    with OneBlasThread():
        sums = [_draw_counts(generator, count, size) @ values.T for size in _batches(resamples)]
    means = np.concatenate(sums) / count
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2], axis=0)
    return low, high


def _draw_counts(generator: np.random.Generator, count: int, resamples: int) -> Floats:
    """Return how often each of `count` queries is in each resample, (resamples, count)."""
    queries = generator.integers(0, count, (resamples, count))
    queries += count * np.arange(resamples)[:, None]
    counts = np.bincount(queries.ravel(), minlength=resamples * count)
    return counts.reshape(resamples, count).astype(np.float64)


def randomisation_test(differences: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Return two-sided p values of mean differences being 0, by Fisher's paired randomisation test.

    Parameters
    ----------
    differences : (m, q) float64
        A row for each metric. The signs of a query's differences are drawn at random; p is the share of draws,
        the observed one among them, whose mean is as far from 0 (Smucker, Allan & Carterette 2007).
    resamples : int
    seed : int

    Returns
    -------
    (m,) float64
    """
    generator = np.random.default_rng(seed)
    observed = np.abs(differences.sum(axis=1))
    threshold = observed * (1 - 1e-12)  # a sum in another order is the same sum
    extreme = np.ones(len(differences))
    with OneBlasThread():
        for size in _batches(resamples):
            signs = generator.integers(0, 2, (size, differences.shape[1]), np.int8) * 2.0 - 1.0
            extreme += (np.abs(signs @ differences.T) >= threshold).sum(axis=0)
    return extreme / (resamples + 1)


def _batches(total: int) -> Iterator[int]:
    for start in range(0, total, BATCH):
        yield min(BATCH, total - start)
