"""Graded images in the order of their scores, and the interpolated grade of a new score (eq. 10)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from cbir.errors import InvalidInput

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Smoothing = int | Literal["auto", "thresholds"]

AUTO = 16  # "auto" is this fraction of the list


class GradedList:
    """Graded images sorted by score.

    Parameters
    ----------
    scores, grades : (n,) float64
        Of the graded images, in any order.
    smoothing : int, "auto" or "thresholds"
        Odd width of a median filter over the grades, for scores that order grades only roughly; the median minimises
        the mean absolute error. 1: the neighbours' grades themselves, as in eq. 10. "auto": a sixteenth of the list.
        "thresholds": grades come from a `GradeScale`; where there is none, as "auto".
    """

    def __init__(self, scores: Floats, grades: Floats, smoothing: Smoothing = 1) -> None:
        self.order: Integers = np.lexsort((grades, scores))
        self.scores, sorted_grades = scores[self.order], grades[self.order]
        width = min(_width(smoothing, len(scores)), 2 * len(scores) - 1)
        smoothed = median_filter(sorted_grades, width, mode="reflect") if width > 1 else sorted_grades
        self._levels, tied, counts = np.unique(self.scores, return_inverse=True, return_counts=True)
        self._grades = np.bincount(tied, smoothed) / counts

    def grades(self, scores: Floats) -> Floats:
        """Interpolate the grades (m,) of new `scores` (m,), constant beyond both ends.

        Graded images with equal scores count with their mean grade.
        """
        return np.interp(scores, self._levels, self._grades)

    def neighbours(self, scores: Floats) -> tuple[Integers, Integers]:
        """Return rows (m,) of the graded images next below or equal to `scores` (m,), and next above; -1: none."""
        above = np.searchsorted(self.scores, scores, "right")
        rows = np.concatenate([[-1], self.order, [-1]])
        return rows[above], rows[above + 1]


def _width(smoothing: Smoothing, count: int) -> int:
    if smoothing in ("auto", "thresholds"):
        return 2 * (count // (2 * AUTO)) + 1
    if isinstance(smoothing, bool) or not isinstance(smoothing, int) or smoothing < 1 or smoothing % 2 == 0:
        raise InvalidInput(
            f"smoothing is an odd number of images from 1, auto or thresholds, not {smoothing!r}"
        )
    return smoothing
