"""What every ranking function has in common: scikit-learn's conventions, standardised features, NDCG as its score."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cbir.errors import InvalidInput
from cbir.models.linear.input_checks import check_features, check_graded, number_groups
from cbir.models.linear.list_measures import mean_ndcg
from cbir.models.linear.ranking_lists import ListSize, assign_lists

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class RankingEstimator(BaseEstimator):
    """A ranking function: the more severe a case, the higher its score.

    The constructor keeps options; `fit` learns; what is learnt ends with `_`. Features are standardised inside.
    """

    name: ClassVar[str]
    list_size: ListSize
    seed: int

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Learn from features X (n, d) and grades y (n,), larger is more severe; two different ones at least.

        groups: (n,) what must not be torn apart where a ranker puts images aside, for instance patients.
        Raises InvalidInput where these do not fit or an option is out of range.
        """
        features, grades = check_graded(X, y)
        if grades.min() == grades.max():
            raise InvalidInput(f"all {len(grades)} grades are alike; there is nothing to rank")
        deviation = features.std(axis=0)
        self.n_features_in_ = features.shape[1]
        self.mean_ = features.mean(axis=0)
        # A constant feature, up to rounding, tells nothing: it stays 0 however a new image differs there.
        constant = deviation <= 1e-7 * np.maximum(np.abs(self.mean_), 1e-30)
        self.scale_ = np.where(constant, np.inf, deviation)
        self._learn(self._standardised(features), grades, number_groups(groups, len(grades)))
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Scores (n,) float64 of features X (n, d); raises InvalidInput where d is not that of `fit`."""
        check_is_fitted(self, "scale_")
        return self._scores(self._standardised(check_features(X, self.n_features_in_)))

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Mean NDCG (eq. 4 of Huang et al. 2010) over lists of `list_size`, 0 to 1."""
        features, grades = check_graded(X, y)
        lists = assign_lists(len(grades), self.list_size, np.random.default_rng(self.seed))
        return mean_ndcg(self.predict(features), grades, lists)

    def _standardised(self, features: Floats) -> Floats:
        return (features - self.mean_) / self.scale_

    @abstractmethod
    def _learn(self, Z: Floats, grades: Floats, groups: Integers) -> None:
        """Learn from standardised features (n, d)."""

    @abstractmethod
    def _scores(self, Z: Floats) -> Floats:
        """Scores (n,) of standardised features (n, d)."""


class LinearRanker(RankingEstimator):
    """A ranker whose scores are the products of standardised features with `coef_` (d,)."""

    coef_: Floats

    def _scores(self, Z: Floats) -> Floats:
        return Z @ self.coef_
