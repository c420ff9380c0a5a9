"""Grades that follow from severity scores, how accurate scores and grades are, and what annotating costs."""

from collections.abc import Callable
from itertools import combinations, pairwise
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import precision_recall_fscore_support

from cbir.errors import InvalidInput
from cbir.evaluation.rank_metrics import auc
from cbir.learn.grading.baselines import MOST_LEVELS, OrdinalRegression
from cbir.learn.grading.grade_scale import nearest_level
from cbir.learn.models.ranking_estimator import mean_or_nan
from service.features.annotate.active.candidate_pool import Rows

Floats = NDArray[np.floating]
# Time to compare two images, and to grade one (Kadota et al., section 5.2.4).
PAIR_SECONDS, IMAGE_SECONDS = 1.0, 20.0


def fit_grade_thresholds(severity: Floats, grades: Floats) -> Callable[[Floats], NDArray[np.float64]] | None:
    """Fit thresholds between grades: proportional odds of the grades, given the severity.

    Kadota et al. round the severity to the nearest grade. It is the answer to a squared error (eq. 4), so it is drawn
    to the mean of the grades, and rounding gives few images the lowest and the highest grade. Thresholds correct
    this; the severity stays the same.

    Parameters
    ----------
    severity : (n,) float
    grades : (n,) float
        NaN for images that no one graded.

    Returns
    -------
    callable or None
        Gives the median grade (m,) of images with a severity (m,); None with fewer than two different grades, or more
        than 50.
    """
    graded = ~np.isnan(grades)
    if not 2 <= len(np.unique(grades[graded])) <= MOST_LEVELS:
        return None
    model = OrdinalRegression().fit(severity[graded][:, None], grades[graded])
    return lambda scores: np.asarray(model.predict(scores[:, None]), np.float64)


class Relative(TypedDict):
    """Accuracy of relative labels, 0 to 1; nan if there are no two grades to compare.

    `overall` is for balanced random pairs, `neighbouring` the mean over pairs of neighbouring grades, and `each` the
    accuracy of each such pair by name, "3-4" for example.
    """

    overall: float
    neighbouring: float
    each: dict[str, float]


def relative_accuracy(scores: Floats, grades: Floats) -> Relative:
    """Return the share of pairs that `scores` (n,) order like `grades` (n,), averaged over all pairs.

    Pairs are balanced: every two grades have the same weight, however many images have them (Kadota et al.,
    section 5.1.2, "Overall"). Instead of drawing pairs, this is the mean over all of them: for two grades the share
    of correctly ordered pairs is the area under the ROC curve. A tie counts half. Raises InvalidInput if shapes
    differ or a number is not finite.
    """
    scores, grades = _checked(scores, grades)
    levels = np.unique(grades)
    accuracy = {}
    for low, high in combinations(levels, 2):
        pair = (grades == low) | (grades == high)
        accuracy[low, high] = auc(scores[pair], grades[pair] == high)
    each = {f"{low:g}-{high:g}": accuracy[low, high] for low, high in pairwise(levels)}
    overall, neighbouring = (mean_or_nan(list(values)) for values in (accuracy.values(), each.values()))
    return {"overall": overall, "neighbouring": neighbouring, "each": each}


def proportions(grades: Floats, pairs: Rows) -> dict[str, float]:
    """Return the share of each grade among the images in `pairs` (Figure 6)."""
    levels, inside = np.unique(grades), np.asarray(grades)[np.unique(pairs)]
    return {f"{level:g}": float((inside == level).mean()) if len(inside) else 0.0 for level in levels}


def uncertainty_by_grade(variance: Floats, grades: Floats) -> dict[str, list[float]]:
    """Return the 5, 25, 50, 75 and 95 % quantiles of the variance for each grade (Figure 7)."""
    variance, grades = _checked(variance, grades)
    return {f"{level:g}": np.quantile(variance[grades == level], (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()
            for level in np.unique(grades)}  # fmt: skip


class Classified(TypedDict):
    """Macro averages over the grades, and the share of images with the correct grade."""

    precision: float
    recall: float
    f1: float
    accuracy: float


def classified(scores: Floats, grades: Floats, levels: Floats) -> Classified:
    """Evaluate calibrated scores as grades (Kadota et al., section 5.2.2).

    Parameters
    ----------
    scores : (n,) float
        Each counts as the nearest level.
    grades : (n,) float
        True grades.
    levels : (k,) float
        Ascending levels.

    Returns
    -------
    Classified
        Averages over the grades that occur in either; 0 for a grade that is never predicted.
    """
    scores, grades = _checked(scores, grades)
    return compare_grades(nearest_level(scores, np.asarray(levels, np.float64)), grades)


def compare_grades(predicted: Floats, grades: Floats) -> Classified:
    """Compare `predicted` grades (n,) with the true `grades` (n,); macro averages are over those in either."""
    predicted, grades = _checked(predicted, grades)
    numbers = (np.searchsorted(np.union1d(predicted, grades), values) for values in (grades, predicted))
    scored = precision_recall_fscore_support(*numbers, average="macro", zero_division=0)
    precision, recall, f1 = map(float, scored[:3])
    accuracy = float((predicted == grades).mean())
    return {"precision": precision, "recall": recall, "f1": f1, "accuracy": accuracy}


def cost(pairs: int, graded: int = 0) -> float:
    """Return the seconds a person needs for `pairs` comparisons and `graded` graded images."""
    return pairs * PAIR_SECONDS + graded * IMAGE_SECONDS


def _checked(scores: Floats, grades: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = np.asarray(scores, np.float64), np.asarray(grades, np.float64)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise InvalidInput(
            f"scores {first.shape} and grades {second.shape} must have one value per image, for at least one image"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InvalidInput("scores and grades must be finite numbers; at least one is not")
    return first, second
