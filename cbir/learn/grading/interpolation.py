"""Grading by ranking: a ranker, the graded images in its order, and grades interpolated between neighbours."""

from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from cbir.errors import InvalidInput
from cbir.evaluation.folds import group_folds
from cbir.learn.grading.grade_scale import GradeScale, fit_grade_scale, half_width
from cbir.learn.grading.graded_list import GradedList, Smoothing
from cbir.learn.grading.left_out_scores import FOLD_STAGE, FOLDS, left_out_scores
from cbir.learn.grading.picture_maps import PictureMaps, Show
from cbir.learn.grading.s_ndcg_ranker import SNdcgRanker
from cbir.learn.models.linear.input_checks import check_graded, number_groups
from cbir.learn.models.linear.ranking_estimator import RankingEstimator

Floats = NDArray[np.float64]


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
