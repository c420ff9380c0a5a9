"""Scores of graded images by graders that were fitted without them."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from cbir.evaluation.folds import group_folds
from cbir.learn.grading.picture_maps import PictureMaps, Show

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FOLDS = 5
FOLD_STAGE = "fitting without a fifth of the images"


def grader_scores(grader: Any, X: Floats | PictureMaps) -> Floats:
    """Return scores (n,) of features `X` (n, d) by a fitted ranker or baseline."""
    return cast(Floats, getattr(grader, "decision_function", grader.predict)(X))


def left_out_scores(
    grader: Any,
    X: Floats | PictureMaps,
    grades: Floats,
    groups: Integers,
    seed: int = 0,
    show: Show = lambda stage, done, total: None,
) -> Floats | None:
    """Score each image by a grader fitted to four fifths of the groups, on the scale of the grader of all images.

    Scores of different graders have no common unit: they are aligned by the mean and deviation that each has on its
    own training images, unless they are expected grades. Width and ridge, and the window, of `grader` are kept.
    One network stands for the mean of several.

    Parameters
    ----------
    grader : estimator
        Fitted to all images.
    X : (n, d) float64 or PictureMaps
        Features.
    grades : (n,) float64
        Grades.
    groups : (n,) int
        Images of one group, such as a patient, are left out together.
    seed : int
        Of the folds.
    show : callable
        Progress callback: stage, folds done and their number.

    Returns
    -------
    (n,) float64 or None
        None if there are too few groups, or training images without a difference.
    """
    if len(np.unique(groups)) < FOLDS:
        return None
    fixed = {
        name: getattr(grader, f"{name}_") for name in ("tuning", "window") if hasattr(grader, f"{name}_")
    }
    if "networks" in grader.get_params():
        fixed["networks"] = 1
    is_aligned = getattr(grader, "predicts_grades", False)
    own = np.zeros(1) if is_aligned else grader_scores(grader, X)
    scores = np.empty(len(grades))
    for fold, (train, test) in enumerate(group_folds(grades, groups, FOLDS, seed)):
        show(FOLD_STAGE, fold, FOLDS)
        if len(np.unique(grades[train])) < 2:
            return None
        members = np.unique(groups[train], return_inverse=True)[1]
        partial = clone(grader).set_params(**fixed).fit(X[train], grades[train], members)
        if is_aligned:
            scores[test] = grader_scores(partial, X[test])
            continue
        known = grader_scores(partial, X[train])
        if (spread := known.std()) <= 0.0:
            return None
        scores[test] = (grader_scores(partial, X[test]) - known.mean()) / spread
    if is_aligned:
        return scores
    return cast(Floats, own.mean() + scores * own.std())
