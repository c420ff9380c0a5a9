"""Bins of estimated severity, and turns between them."""

import numpy as np
from numpy.typing import NDArray

from service.features.annotate.active.candidate_pool import Rows

BINS = 8  # equally wide
QUANTILES = (0.01, 0.99)  # ends of the bins, robust against outliers


def severity_bins(mean: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the bin (n,), 0 to BINS - 1, of each severity (n,), n at least 1."""
    low, high = np.quantile(mean, QUANTILES).tolist()
    return np.searchsorted(np.linspace(low, high, BINS + 1)[1:-1], mean, "right")


def take_turns(
    bin_of: NDArray[np.int64], order: NDArray[np.floating], count: int, rng: np.random.Generator
) -> Rows:
    """Select from each bin in turn, until there are enough.

    Parameters
    ----------
    bin_of : (n,) int64
        Bin of each candidate.
    order : (n,) float
        The lowest of a bin comes first.
    count : int
        Number to select.
    rng : numpy.random.Generator
        Breaks ties.

    Returns
    -------
    (m,) int64
        Distinct positions, m = min(count, n).
    """
    sequence = np.lexsort((rng.random(len(bin_of)), order, bin_of))
    starts = np.searchsorted(bin_of[sequence], np.arange(BINS))
    turn = np.arange(len(bin_of)) - starts[bin_of[sequence]]  # rank within the bin
    return sequence[np.lexsort((rng.random(len(bin_of)), turn))[:count]]
