"""Grading via ranking: a ranker, the graded images in its order, and grades read between neighbours."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from cbir.errors import InvalidInput
from cbir.grading.graded_list import GradedList, Smoothing
from cbir.grading.s_ndcg import SNdcgRanker
from cbir.models.linear.grouped_folds import group_folds
from cbir.models.linear.input_checks import check_graded, number_groups
from cbir.models.linear.ranking_estimator import RankingEstimator

Floats = NDArray[np.float64]

FOLDS = 5


@dataclass(frozen=True)
class Placed:
    """Where a new image stands among the graded ones.

    grade: decimal. low, high: the interval, within the graded range. lighter, severer: rows of the graded images
    next below (or level with it) and above in the list; None at an end of it.
    """

    score: float
    grade: float
    low: float
    high: float
    lighter: int | None
    severer: int | None


class GradeInterpolator(BaseEstimator):
    """The grade of an unseen image from its neighbours among graded ones (eq. 10 of Huang et al. 2010).

    ranker: not fitted; None for S-NDCG. smoothing: see `GradedList`. coverage: share of new images whose clinician's
    grade the interval is to hold; None leaves the interval out, and with it the fits of the folds.

    The interval is grade +- `error_`: the ceil((n + 1) coverage)-th smallest error of the n graded images, each
    graded by a ranker and a list that had seen none of its group (cross-conformal, Vovk 2015). It holds over new
    images drawn like the graded ones, not for every grade alike.
    """

    def __init__(
        self,
        ranker: RankingEstimator | None = None,
        smoothing: Smoothing = 1,
        coverage: float | None = 0.9,
        seed: int = 0,
    ) -> None:
        self.ranker = ranker
        self.smoothing = smoothing
        self.coverage = coverage
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Learn from features X (n, d), grades y (n,) and, for instance, patients (n,); raises InvalidInput."""
        if self.coverage is not None and not 0 < self.coverage < 1:
            raise InvalidInput(f"coverage is a share between 0 and 1, not {self.coverage!r}")
        features, grades = check_graded(X, y)
        members = number_groups(groups, len(grades))
        self.ranker_, self.list_ = self._fitted(features, grades, members)
        self.n_features_in_ = features.shape[1]
        self.range_ = float(grades.min()), float(grades.max())
        self.error_ = None if self.coverage is None else self._error(features, grades, members, self.coverage)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Decimal grades (n,) of features X (n, d)."""
        check_is_fitted(self, "list_")
        return self.list_.grades(self.ranker_.predict(X))

    def place(self, X: ArrayLike) -> list[Placed]:
        """Grade, interval and neighbours of each row of X (n, d); the interval is nan with coverage None."""
        check_is_fitted(self, "list_")
        scores = self.ranker_.predict(X)
        return placed(self.list_, scores, self.error_, self.range_)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The share of grades within one of y: the paper's grading accuracy."""
        features, grades = check_graded(X, y)
        return float((np.abs(self.predict(features) - grades) <= 1).mean())

    def _fitted(
        self, features: Floats, grades: Floats, groups: NDArray[np.int64]
    ) -> tuple[RankingEstimator, GradedList]:
        ranker = clone(self.ranker) if self.ranker is not None else SNdcgRanker(seed=self.seed)
        ranker.fit(features, grades, groups)
        return ranker, GradedList(ranker.predict(features), grades, self.smoothing)

    def _error(self, features: Floats, grades: Floats, groups: NDArray[np.int64], coverage: float) -> float:
        """Half the width of the interval; the whole range where there are too few images to tell."""
        count, whole = len(grades), self.range_[1] - self.range_[0]
        place = int(np.ceil((count + 1) * coverage))
        if place > count or len(np.unique(groups)) < FOLDS:
            return whole
        errors = np.empty(count)
        for train, test in group_folds(grades, groups, FOLDS, self.seed):
            if len(np.unique(grades[train])) < 2:
                return whole
            ranker, graded_list = self._fitted(features[train], grades[train], groups[train])
            errors[test] = np.abs(graded_list.grades(ranker.predict(features[test])) - grades[test])
        return float(np.sort(errors)[place - 1])


def placed(
    graded_list: GradedList, scores: Floats, error: float | None, within: tuple[float, float]
) -> list[Placed]:
    """Where new scores (m,) stand in a list; error: half the width of the interval, clipped to `within`."""
    half = np.nan if error is None else error
    lighter, severer = graded_list.neighbours(scores)
    return [
        Placed(
            float(score),
            float(grade),
            float(np.maximum(grade - half, within[0])),
            float(np.minimum(grade + half, within[1])),
            None if below < 0 else int(below),
            None if above < 0 else int(above),
        )
        for score, grade, below, above in zip(
            scores, graded_list.grades(scores), lighter, severer, strict=True
        )
    ]
