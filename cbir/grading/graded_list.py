"""Graded images in the order of their scores, and the grade of a new score between its neighbours (eq. 10)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from cbir.errors import InvalidInput

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Smoothing = int | Literal["auto"]

AUTO = 16  # "auto" is one of so many images of the list


class GradedList:
    """Scores (n,) and grades (n,) of graded images, in any order.

    smoothing: 1 reads the neighbours' own grades, as eq. 10 has it. A larger odd number gives every graded image
    the median grade of so many around it first, for scores that order grades only roughly; the median is what
    makes the mean absolute error least. "auto": a sixteenth of the list.
    """

    def __init__(self, scores: Floats, grades: Floats, smoothing: Smoothing = 1) -> None:
        self.order: Integers = np.lexsort((grades, scores))
        self.scores, sorted_grades = scores[self.order], grades[self.order]
        width = min(_width(smoothing, len(scores)), 2 * len(scores) - 1)
        smoothed = median_filter(sorted_grades, width, mode="reflect") if width > 1 else sorted_grades
        self._places, tied, counts = np.unique(self.scores, return_inverse=True, return_counts=True)
        self._grades = np.bincount(tied, smoothed) / counts

    def grades(self, scores: Floats) -> Floats:
        """Grades (m,) of new scores (m,): interpolated between the neighbours, at either end the last one's.

        Graded images with equal scores stand for the mean of their grades.
        """
        return np.interp(scores, self._places, self._grades)

    def neighbours(self, scores: Floats) -> tuple[Integers, Integers]:
        """The graded images (rows) next below, or level with, new scores (m,), and next above; -1 for none."""
        above = np.searchsorted(self.scores, scores, "right")
        rows = np.concatenate([[-1], self.order, [-1]])
        return rows[above], rows[above + 1]


def _width(smoothing: Smoothing, count: int) -> int:
    if smoothing == "auto":
        return 2 * (count // (2 * AUTO)) + 1
    if isinstance(smoothing, bool) or not isinstance(smoothing, int) or smoothing < 1 or smoothing % 2 == 0:
        raise InvalidInput(f"smoothing is an odd number of images from 1, or auto, not {smoothing!r}")
    return smoothing
