"""Agreement of predicted grades with a clinician's."""

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-9


class GradeAgreement(TypedDict):
    """Shares of grades within 0.5, within 1 and exact; mean absolute error; quadratic weighted kappa; NDCG."""

    within_half: float
    within_one: float
    exact: float
    mae: float
    kappa: float
    ndcg: float


def nearest_level(grades: Floats, levels: Floats) -> Floats:
    """Round decimal `grades` (n,) to the nearest of ascending `levels`, ties upwards."""
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2.0, grades, "right")]


def quadratic_kappa(first: Floats, second: Floats) -> float:
    """Compute Cohen's kappa of grades `first` (n,) and `second` (n,) with quadratic weights, -1 to 1.

    It is 1 less the mean squared difference over that of grades paired at random (Cohen 1968); nan if all grades are
    equal. scikit-learn weighs ranks of the levels that occur, which differs if grades are not evenly spaced.
    """
    chance = first.var() + second.var() + (first.mean() - second.mean()) ** 2
    return 1.0 - float(np.mean((first - second) ** 2) / chance) if chance > 0 else float("nan")


def measure_agreement(predicted: Floats, grades: Floats, levels: Floats, ndcg: float) -> GradeAgreement:
    """Compare predicted with true grades.

    Parameters
    ----------
    predicted : (n,) float64
        Decimal grades.
    grades : (n,) float64
        True grades.
    levels : (m,) float64
        All grades, ascending; exact agreement and kappa use predictions rounded to them.
    ndcg : float
        NDCG of the scores, which is passed through.
    """
    errors = np.abs(predicted - grades)
    rounded = nearest_level(predicted, levels)
    return {
        "within_half": float((errors <= 0.5 + ROUNDING).mean()),
        "within_one": float((errors <= 1.0 + ROUNDING).mean()),
        "exact": float((rounded == grades).mean()),
        "mae": float(errors.mean()),
        "kappa": quadratic_kappa(rounded, grades),
        "ndcg": ndcg,
    }
