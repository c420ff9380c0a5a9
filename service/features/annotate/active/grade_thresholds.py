"""Grades from calibrated severity: thresholds between the grades, fitted to graded images."""

import numpy as np
from numpy.typing import NDArray

from cbir.learn.grading.baselines import MOST_LEVELS, OrdinalRegression

Floats = NDArray[np.floating]


class GradeThresholds:
    """Proportional odds of the grades, given the severity.

    Kadota et al. round the severity to the nearest grade. It is the answer to a squared error (eq. 4), so it is drawn
    to the mean of the grades, and rounding gives few images the lowest and the highest grade. Thresholds correct
    this; the severity stays the same.
    """

    def __init__(self, severity: Floats, grades: Floats) -> None:
        """Fit to the `severity` (n,) of images and their `grades` (n,), 2 to 50 different ones."""
        self._model = OrdinalRegression().fit(severity[:, None], grades)

    def __call__(self, severity: Floats) -> NDArray[np.float64]:
        """Return the median grade (m,) of images with this `severity` (m,)."""
        return np.asarray(self._model.predict(severity[:, None]), np.float64)


def fit_grade_thresholds(severity: Floats, grades: Floats) -> GradeThresholds | None:
    """Fit thresholds between grades.

    Parameters
    ----------
    severity : (n,) float
    grades : (n,) float
        NaN for images that no one graded.

    Returns
    -------
    GradeThresholds or None
        None with fewer than two different grades, or more than 50.
    """
    graded = ~np.isnan(grades)
    if not 2 <= len(np.unique(grades[graded])) <= MOST_LEVELS:
        return None
    return GradeThresholds(severity[graded], grades[graded])
