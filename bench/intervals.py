"""Confidence interval of a mean over seeds."""

from collections.abc import Sequence

import numpy as np
from scipy import stats


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of two or more values, and the ends of its 95 % interval (Student's t)."""
    mean = float(np.mean(values))
    half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5)
    return mean, mean - half, mean + half
