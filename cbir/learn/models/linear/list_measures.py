"""Agreement of scores with grades in ranking lists: NDCG and Kendall's tau."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cbir.learn.models.linear.pair_sums import Pairs
from cbir.learn.models.linear.ranking_lists import rows_by_list

Floats = NDArray[np.float64]


def ndcg_gains(grades: Floats) -> Floats:
    """Compute 2^grade - 1, divided by 2^highest against overflow; negative grades are shifted up together."""
    shifted = grades - min(0.0, float(grades.min(initial=0.0)))
    highest = shifted.max(initial=0.0)
    return cast(Floats, np.exp2(shifted - highest) - np.exp2(-highest))


def ndcg(scores: Floats, gain: Floats) -> float:
    """Compute NDCG (Huang et al. 2010, eq. 4) of `scores` (n,) and gains `gain` (n,); nan if no gain is above 0.

    Equal scores share the discounts of their positions.
    """
    discounts = 1.0 / np.log2(np.arange(2.0, len(scores) + 2.0))
    best = float(np.sort(gain)[::-1] @ discounts)
    if best <= 0.0:
        return float("nan")
    _, tied, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    sums = np.concatenate([[0.0], np.cumsum(discounts)])
    return float(gain @ ((sums[ends] - sums[ends - counts]) / counts)[tied]) / best


def ndcg_of_lists(scores: Floats, grades: Floats, lists: NDArray[np.int64]) -> Floats:
    """Compute the NDCG of each list.

    Parameters
    ----------
    scores, grades : (n,) float64
        Of all images.
    lists : (n,) int
        List of each image.

    Returns
    -------
    (m,) float64
        Lists without NDCG are left out.
    """
    gain = ndcg_gains(grades)
    values = np.array([ndcg(scores[rows], gain[rows]) for rows in rows_by_list(lists)])
    return cast(Floats, values[~np.isnan(values)])


def mean_or_nan(values: Floats | Sequence[float]) -> float:
    """Return the mean of `values`; nan if there are none."""
    return float(np.mean(values)) if len(values) else float("nan")


def kendall_tau(scores: Floats, grades: Floats, lists: NDArray[np.int64]) -> Floats:
    """Compute (P - Q) / (n (n - 1) / 2) with P concordant and Q discordant pairs (Huang et al. 2010, IV.B).

    O(n log n log g) for g different grades.

    Parameters
    ----------
    scores, grades : (n,) float64
        Of all images; ties count as neither concordant nor discordant.
    lists : (n,) int
        List of each image, numbered from 0.

    Returns
    -------
    (m,) float64
        Tau of each list.
    """
    count, ranks = np.ones(len(scores)), np.unique(scores, return_inverse=True)[1].astype(np.float64)
    pairs = Pairs(grades, lists)
    difference = pairs.within(-ranks, 0.0).of_lower(count) - pairs.within(ranks, 0.0).of_lower(count)
    size = np.bincount(lists).astype(np.float64)
    return np.bincount(lists, difference) / np.maximum(size * (size - 1.0) / 2.0, 1.0)
