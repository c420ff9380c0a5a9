"""Grading by ranking: a ranker, the graded images in its order, grades interpolated between neighbours (eq. 10)."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import median_filter
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from cbir.errors import InvalidInput
from cbir.evaluation.significance import group_folds
from cbir.learn.grading.grade_scale import GradeScale, fit_grade_scale, half_width
from cbir.learn.grading.picture_maps import PictureMaps, Show
from cbir.learn.grading.s_ndcg_ranker import SNdcgRanker
from cbir.learn.models.ranking_estimator import RankingEstimator, check_graded, number_groups

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
    unaligned = np.zeros(1) if is_aligned else grader_scores(grader, X)
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
        training_scores = grader_scores(partial, X[train])
        if np.ptp(training_scores) <= 0.0 or (spread := training_scores.std()) <= 0.0:
            return None
        scores[test] = (grader_scores(partial, X[test]) - training_scores.mean()) / spread
    if is_aligned:
        return scores
    return cast(Floats, unaligned.mean() + scores * unaligned.std())


@dataclass(frozen=True)
class GradePlacement:
    """Position of a new image among the graded ones.

    Attributes
    ----------
    score, grade : float
        Score of the ranker and decimal grade.
    low, high : float
        Interval of the grade, within the graded range.
    lighter, severer : int, optional
        Rows of the graded images next below (or equal) and next above; None at an end of the list.
    """

    score: float
    grade: float
    low: float
    high: float
    lighter: int | None
    severer: int | None


@dataclass(eq=False, repr=False)
class GradeInterpolator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Estimator of the grade of a new image from its neighbours among graded ones (Huang et al. 2010, eq. 10).

    The interval is grade +- `error_`: the ceil((n + 1) coverage)-th smallest error of the n graded images, each
    graded by a ranker and a list (with thresholds: by a ranker) that were fitted without its group (cross-conformal,
    Vovk 2015). It is valid on average over new images from the same distribution, not for each grade separately.
    With thresholds the images that are rounded to one grade have an interval of their own, where there are enough.

    Parameters
    ----------
    ranker : RankingEstimator, optional
        Not fitted; None: S-NDCG.
    smoothing : int, "auto" or "thresholds"
        See `GradedList`; "thresholds": grades by a `GradeScale` instead of neighbours.
    coverage : float, optional
        Share of new images whose grade the interval covers; None: no interval, and no cross-validation for it.
    seed : int
        Seed of the folds, and of the default ranker.
    """

    ranker: RankingEstimator | None = None
    smoothing: Smoothing = 1
    coverage: float | None = 0.9
    seed: int = 0

    def fit(
        self,
        X: ArrayLike | PictureMaps,
        y: ArrayLike,
        groups: Any = None,
        show: Show = lambda stage, done, total: None,
    ) -> Self:
        """Fit the ranker and the interval.

        Parameters
        ----------
        X : (n, d) or PictureMaps
            Features, or pictures for a network.
        y : (n,)
            Grades.
        groups : (n,), optional
            Groups of images, such as patients.
        show : callable
            Progress callback: stage, done and total.

        Raises
        ------
        InvalidInput
            If these do not fit.
        """
        if self.coverage is not None and not 0 < self.coverage < 1:
            raise InvalidInput(f"coverage is a share between 0 and 1, not {self.coverage!r}")
        predicts_grades = self.ranker is not None and self.ranker.predicts_grades
        features: Any = X  # perhaps pictures
        if predicts_grades:
            _, grades = check_graded(np.zeros((np.size(y), 1)), y)
        else:
            features, grades = check_graded(cast(ArrayLike, X), y)
        members = number_groups(groups, len(grades))
        self.ranker_, self.list_ = self._fitted(features, grades, members)
        self.n_features_in_ = self.ranker_.n_features_in_
        self.range_ = float(grades.min()), float(grades.max())
        scores, self.scale_ = None, None
        if predicts_grades:
            if self.coverage is not None:
                scores = left_out_scores(self.ranker_, features, grades, members, self.seed, show)
            self.scale_ = self.ranker_.grade_scale_
        elif self.smoothing == "thresholds":
            scores = left_out_scores(self.ranker_, features, grades, members, self.seed, show)
            self.scale_ = None if scores is None else fit_grade_scale(scores, grades)
        self.error_ = None
        if self.coverage is not None:
            if self.scale_ is not None and scores is None:
                errors = np.full(len(grades), np.inf)  # too few groups
                width = self.range_[1] - self.range_[0]
                self.scale_ = replace(self.scale_, half_widths=np.full(len(self.scale_.levels), width))
            elif self.scale_ is not None and scores is not None:
                errors = np.abs(self.scale_.grades(scores) - grades)
                self.scale_ = self.scale_.with_intervals(scores, grades, self.coverage)
            else:
                errors = self._errors(features, grades, members, show)
            self.error_ = min(half_width(errors, self.coverage), self.range_[1] - self.range_[0])
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return decimal grades (n,) of features `X` (n, d)."""
        check_is_fitted(self, "list_")
        return (self.scale_ or self.list_).grades(self.ranker_.predict(X))

    def locate(self, X: ArrayLike) -> list[GradePlacement]:
        """Return grade, interval and neighbours of each row of `X` (n, d); without coverage the interval is nan."""
        check_is_fitted(self, "list_")
        scores = self.ranker_.predict(X)
        return locate_scores(self.list_, scores, self.error_, self.range_, self.scale_)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of grades of `X` within one of `y`: the paper's grading accuracy."""
        features, grades = check_graded(X, y)
        return float((np.abs(self.predict(features) - grades) <= 1).mean())

    def _fitted(
        self, features: Floats, grades: Floats, groups: NDArray[np.int64]
    ) -> tuple[RankingEstimator, GradedList]:
        ranker = clone(self.ranker) if self.ranker is not None else SNdcgRanker(seed=self.seed)
        ranker.fit(features, grades, groups)
        return ranker, GradedList(ranker.predict(features), grades, self.smoothing)

    def _errors(self, features: Floats, grades: Floats, groups: NDArray[np.int64], show: Show) -> Floats:
        """Return the errors (n,) of grades between neighbours; all inf if there are too few images."""
        errors = np.full(len(grades), np.inf)
        if len(np.unique(groups)) < FOLDS:
            return errors
        for fold, (train, test) in enumerate(group_folds(grades, groups, FOLDS, self.seed)):
            show(FOLD_STAGE, fold, FOLDS)
            if len(np.unique(grades[train])) < 2:
                return np.full(len(grades), np.inf)
            ranker, graded_list = self._fitted(features[train], grades[train], groups[train])
            errors[test] = np.abs(graded_list.grades(ranker.predict(features[test])) - grades[test])
        return errors


def locate_scores(
    graded_list: GradedList,
    scores: Floats,
    error: float | None,
    within: tuple[float, float],
    scale: GradeScale | None = None,
) -> list[GradePlacement]:
    """Place new scores in a list of graded images.

    Parameters
    ----------
    graded_list : GradedList
        The list.
    scores : (m,) float64
        New scores.
    error : float, optional
        Half the width of the intervals; None: nan.
    within : (float, float)
        Range that the intervals are clipped to.
    scale : GradeScale, optional
        Thresholds, with intervals of their own; None: the grades of the neighbours.
    """
    halves = np.full(len(scores), np.nan if error is None else error)
    if scale is not None:
        halves = scale.errors(scores)
    lighter, severer = graded_list.neighbours(scores)
    return [
        GradePlacement(
            float(score),
            float(grade),
            float(np.maximum(grade - half, within[0])),
            float(np.minimum(grade + half, within[1])),
            None if below < 0 else int(below),
            None if above < 0 else int(above),
        )
        for score, grade, half, below, above in zip(
            scores, (scale or graded_list).grades(scores), halves, lighter, severer, strict=True
        )
    ]
