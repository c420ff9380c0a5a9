"""How far predicted grades are from a clinician's."""

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-9


class Agreement(TypedDict):
    """Shares of grades within 0.5 and 1 and exact, mean absolute error, quadratic weighted kappa, NDCG of lists."""

    within_half: float
    within_one: float
    exact: float
    mae: float
    kappa: float
    ndcg: float


def nearest_level(grades: Floats, levels: Floats) -> Floats:
    """Decimal grades (n,) rounded to the nearest of ascending `levels`, the higher of two that are as near."""
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2.0, grades, "right")]


def quadratic_kappa(one: Floats, other: Floats) -> float:
    """Cohen's kappa with quadratic weights of the grades' difference, -1 to 1; nan where all grades are alike.

    1 less the mean squared difference over that of grades paired at random (Cohen 1968).
    """
    chance = one.var() + other.var() + (one.mean() - other.mean()) ** 2
    return 1.0 - float(np.mean((one - other) ** 2) / chance) if chance > 0 else float("nan")


def agreement(predicted: Floats, grades: Floats, levels: Floats, ndcg: float) -> Agreement:
    """All measures of decimal grades (n,) against true ones (n,).

    Exact and kappa are of grades rounded to `levels`, ascending: those there are. ndcg: measured elsewhere, as it is
    of the scores.
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
