"""S-NDCG of a list (Huang et al. 2010, eq. 8), and its gradient (eq. 9)."""

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.grading.smooth_steps import SmoothSteps

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NARROWEST = 1e-9  # least spread of scores


def s_ndcg(scores: Floats, gain: Floats, form: str, alpha: float) -> tuple[float, Floats]:
    """Compute S-NDCG (eq. 8) of a list and its gradient (eq. 9 without the ranking function).

    Parameters
    ----------
    scores, gain : (n,) float64
        Scores and gains.
    form : str
        "sigmoid" or "paper", see `SNdcgRanker`.
    alpha : float
        Steepness.

    Returns
    -------
    float
        S-NDCG; nan if no gain is above 0.
    (n,) float64
        Its gradient with respect to the scores.

    Raises
    ------
    InvalidInput
        If the scores leave the domain of the logarithm.
    """
    best = np.sort(gain)[::-1] @ (1.0 / np.log2(np.arange(2.0, len(gain) + 2.0)))
    if best <= 0.0:
        return float("nan"), np.zeros(len(scores))
    smooth = form == "sigmoid"
    centred = scores - scores.mean()
    spread = max(float(np.sqrt(np.mean(centred**2))), NARROWEST) if smooth else 1.0
    steps = SmoothSteps(scores * (alpha / spread))
    positions = 1.0 + steps.ranks()
    if smooth:
        positions = 1.0 + (positions - 1.0 + len(scores) - 1.0) / 2.0
    elif positions.min() <= 0.0:
        raise InvalidInput(
            "the scores leave the domain of s-ndcg as printed (a position is not above 0); use a smaller alpha or "
            "rate, or the form sigmoid"
        )
    value = float((gain / np.log2(1.0 + positions)).sum() / best)
    by_position = -gain / (np.log2(1.0 + positions) ** 2 * (1.0 + positions) * np.log(2.0) * best)
    slopes = steps.slopes(by_position) - by_position * steps.slopes(np.ones(len(scores)))
    slopes *= alpha / spread * (0.5 if smooth else 1.0)
    if smooth:  # the spread changes with the scores
        slopes -= centred * (float(slopes @ centred) / (len(scores) * spread**2))
    return value, slopes


def mean_s_ndcg(
    scores: Floats, gain: Floats, lists: list[Integers], form: str, alpha: float
) -> tuple[float, Floats]:
    """Compute the mean S-NDCG of lists, and its gradient with respect to the scores.

    Parameters
    ----------
    scores, gain : (n,) float64
        Scores and gains of all images.
    lists : list of (m,) int
        Rows of each list; those without gain count as 0.
    form, alpha
        As for `s_ndcg`, which also raises.
    """
    total, slopes = 0.0, np.zeros(len(scores))
    for rows in lists:
        value, slopes[rows] = s_ndcg(scores[rows], gain[rows], form, alpha)
        total += 0.0 if np.isnan(value) else value
    return total / len(lists), slopes / len(lists)
