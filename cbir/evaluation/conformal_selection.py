"""Selection of images that score above negatives, with a bound on how many of the selected are negative."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import betabinom

from cbir.errors import InvalidInput

CONFIDENCE = 0.9  # of the bound on the number of false selections
ROUNDING = 1e-9  # relative: a rate such as 0.3 is not exact, and p-values often equal their thresholds

Floats = NDArray[np.float64]


class ConformalSelection(NamedTuple):
    """Selected images, a mask (m,), and the number of negatives among them that CONFIDENCE of draws do not exceed."""

    selected: NDArray[np.bool_]
    most_false: int


def conformal_p_values(scores: Floats, negatives: Floats) -> Floats:
    """Return the p-values (m,) of `scores` (m,): the share of `negatives` (n,), and itself, that score no lower.

    Bates et al. 2023, Testing for outliers with conformal p-values, section 2.
    """
    higher = len(negatives) - np.searchsorted(np.sort(negatives), scores, side="left")
    return np.asarray((1.0 + higher) / (len(negatives) + 1.0), np.float64)


def select_above_negatives(scores: Floats, negatives: Floats, fdr: float) -> ConformalSelection:
    """Select images by conformal p-values with the procedure of Benjamini and Hochberg.

    Jin and Candes 2023, Selection by prediction with conformal p-values, with negatives alone for calibration. If the
    negatives among the images are exchangeable with the calibrating ones, then over draws of both the expected share
    of negatives among the selected, the false discovery rate, is at most `fdr`. The share in one draw may be higher.

    Parameters
    ----------
    scores : (m,)
        Scores of the images.
    negatives : (n,)
        Scores of held-out negatives.
    fdr : float
        Between 0 and 1.

    Raises
    ------
    InvalidInput
        If `fdr` is out of range, or there are no negatives.
    """
    if not 0.0 < fdr < 1.0:
        raise InvalidInput(f"a false discovery rate is above 0 and below 1, not {fdr}")
    if not len(negatives):
        raise InvalidInput("conformal selection needs scores of held-out negatives; there are none")
    p = conformal_p_values(scores, negatives)
    passes = np.sort(p) * len(p) <= fdr * np.arange(1, len(p) + 1) * (1 + ROUNDING)
    if not passes.any():
        return ConformalSelection(np.zeros(len(p), bool), 0)
    selected = p <= np.sort(p)[np.flatnonzero(passes)[-1]]
    rank = round(float(p[selected].max()) * (len(negatives) + 1))
    return ConformalSelection(selected, min(int(selected.sum()), most_above(rank, len(negatives), len(p))))


def most_above(rank: int, negatives: int, images: int) -> int:
    """Return a bound on how many of m new negatives score above the `rank`-th highest of n calibrating ones.

    That number is beta-binomial, for exchangeable scores (Marques 2023, On the universal distribution of the coverage
    in split conformal prediction). The bounds of all ranks together hold with probability CONFIDENCE: a rank k has
    the share 1 / (k (k + 1)) of the error, so that the rank may depend on the data.
    """
    if rank > negatives:
        return images
    error = (1.0 - CONFIDENCE) / (rank * (rank + 1))
    return int(betabinom.ppf(1.0 - error, images, rank, negatives + 1 - rank))


def least_selected(images: int, negatives: int, fdr: float) -> int:
    """Return how many of `images` are enough at `fdr` if they score above all `negatives`, and all others below.

    More than `images` if there are fewer than `least_negatives`.
    """
    return int(np.ceil(images / (fdr * (negatives + 1)) * (1 - ROUNDING)))


def least_negatives(fdr: float) -> int:
    """Return the number of negatives below which nothing can be selected at `fdr`."""
    return int(np.ceil((1 - ROUNDING) / fdr)) - 1
