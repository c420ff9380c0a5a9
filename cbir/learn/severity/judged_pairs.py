"""Judged pairs, from which a ranker learns severity, and the estimate that it gives."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class JudgedPairs:
    """Valid training data: `pairs` (m, 2) of rows, `labels` (m,) from 0 to 1, `grades` (n,) with NaN for unknown.

    `mean_grade` is None if no grade is known. A graded image in no pair is paired with itself, which has no effect
    on RankNet but on the calibration.
    """

    pairs: NDArray[np.int64]
    labels: NDArray[np.float32]
    grades: NDArray[np.float32]
    mean_grade: float | None


def check_judged_pairs(
    count: int, pairs: ArrayLike, labels: ArrayLike, grades: ArrayLike | None = None
) -> JudgedPairs:
    """Validate judged pairs.

    Parameters
    ----------
    count : int
        Number of images, n.
    pairs : (m, 2) int
        Rows of images; m may be 0 if an image has a grade.
    labels : (m,) float
        1, 0.5 or 0: the first image is more severe, both are equal, or the second is.
    grades : (n,) float, optional
        NaN for unknown.

    Returns
    -------
    JudgedPairs

    Raises
    ------
    InvalidInput
        If shapes or values are not valid.
    """
    rows, targets = np.asarray(pairs), np.asarray(labels)
    if rows.ndim != 2 or rows.shape[1:] != (2,) or rows.dtype.kind not in "iu":
        raise InvalidInput("pairs must be integers of shape (pairs, 2)")
    if len(rows) and (rows.min() < 0 or rows.max() >= count):
        row = rows.min() if rows.min() < 0 else rows.max()
        raise InvalidInput(f"a pair refers to image {row} of {count} images")
    if (rows[:, 0] == rows[:, 1]).any():
        raise InvalidInput("a pair needs two different images")
    are_numbers = targets.shape == (len(rows),) and targets.dtype.kind in "biuf"
    if not are_numbers or not ((targets >= 0) & (targets <= 1)).all():
        raise InvalidInput(f"{len(rows)} pairs need as many labels from 0 to 1 (1, 0.5 or 0)")
    all_grades = np.asarray(np.full(count, np.nan) if grades is None else grades, np.float32)
    if all_grades.shape != (count,) or np.isinf(all_grades).any():
        raise InvalidInput(f"{count} images need as many grades, NaN where unknown")
    graded = np.flatnonzero(~np.isnan(all_grades))
    if not len(rows) and not len(graded):
        raise InvalidInput("training needs at least one pair or one grade")
    unpaired = np.setdiff1d(graded, rows)
    return JudgedPairs(
        np.concatenate([rows.astype(np.int64), np.stack([unpaired, unpaired], axis=1)]),
        np.concatenate([targets.astype(np.float32), np.full(len(unpaired), 0.5, np.float32)]),
        all_grades,
        float(all_grades[graded].mean()) if len(graded) else None,
    )


Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SeverityEstimate:
    """Mean and variance of the stochastic passes, and features for strategies that use diversity.

    `mean` (n,) float32 is higher for more severe images; `variance` (n,) float32; `features` (n, d) float32 are the
    inputs of the last layer, averaged over the passes; `scores` (T, n) float32 are those of each pass, if stored.
    `encoder_features` (n, k) float32 are those of the pretrained encoder, for a strategy that needs them.
    """

    mean: Floats
    variance: Floats
    features: Floats
    scores: Floats | None = None
    encoder_features: Floats | None = None

    def __len__(self) -> int:
        return len(self.mean)
