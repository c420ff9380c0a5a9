"""Base of the ranking functions: scikit-learn's conventions, checked inputs, standardised features, NDCG as score."""

from abc import abstractmethod
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cbir.errors import InvalidInput
from cbir.learn.models.linear.ranking_lists import ListSize, assign_lists, mean_or_nan, ndcg_of_lists

Floats = NDArray[np.float64]


def check_features(X: ArrayLike, dimensions: int | None = None) -> Floats:
    """Return features `X` (n, d) as float64; InvalidInput if they are not finite, or d is not `dimensions`."""
    features = _numbers(X, "features")
    if features.ndim != 2 or not features.shape[1]:
        raise InvalidInput(f"features have the shape (images, values), not {features.shape}")
    if dimensions is not None and features.shape[1] != dimensions:
        raise InvalidInput(
            f"these features have {features.shape[1]} values per image; the ranker was fitted with {dimensions}"
        )
    return features


def check_graded(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return features `X` (n, d) and grades `y` (n,) as float64; InvalidInput if they do not fit or are empty."""
    features, grades = check_features(X), _numbers(y, "grades")
    if grades.shape != (len(features),):
        raise InvalidInput(f"{len(features)} images need as many grades, not {grades.shape}")
    if not len(grades):
        raise InvalidInput("there are no graded images")
    return features, grades


def number_groups(groups: Any, count: int) -> NDArray[np.int64]:
    """Return the group number (n,) of each of `count` images; without `groups`, each has a group of its own."""
    if groups is None:
        return np.arange(count)
    numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    if numbers.shape != (count,):
        raise InvalidInput(f"{count} images need as many groups, not {numbers.shape}")
    return numbers


def _numbers(values: ArrayLike, what: str) -> Floats:
    try:
        numbers = np.asarray(values)
        if numbers.dtype.kind == "c":
            raise TypeError
        numbers = np.asarray(numbers, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be real numbers") from None
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"{what} must be finite numbers; at least one is not")
    return numbers


Integers = NDArray[np.int64]


class RankingEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A ranking function: higher scores for more severe cases.

    The constructor stores options; `fit` learns, into attributes that end with `_`.
    """

    name: ClassVar[str]
    predicts_grades: ClassVar[bool] = False  # scores are expected grades
    list_size: ListSize
    seed: int

    @abstractmethod
    def fit(self, X: Any, y: ArrayLike, groups: Any = None) -> Self:
        """Fit the ranking function.

        Parameters
        ----------
        X : (n, d)
            Features; of some rankers pictures.
        y : (n,)
            Grades, at least two different ones; larger is more severe.
        groups : (n,), optional
            Images of one group, such as a patient, stay together if the ranker holds images out.

        Raises
        ------
        InvalidInput
            If these do not fit or an option is out of range.
        """

    @abstractmethod
    def predict(self, X: Any) -> Floats:
        """Return scores (n,) float64 of `X`, which is of the kind of `fit`; raise InvalidInput if it is not."""

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return the mean NDCG, 0 to 1, of `X` with grades `y` (Huang et al. 2010, eq. 4)."""
        scores = self.predict(X)
        _, grades = check_graded(scores[:, None], y)
        lists = assign_lists(len(grades), self.list_size, np.random.default_rng(self.seed))
        return mean_or_nan(ndcg_of_lists(scores, grades, lists))


class FeatureRanker(RankingEstimator):
    """A ranker of features, which it standardises."""

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Standardise the features and learn from them; see `RankingEstimator.fit`."""
        features, grades = check_graded(X, y)
        if grades.min() == grades.max():
            raise InvalidInput(f"all {len(grades)} grades are equal; there is nothing to rank")
        deviation = features.std(axis=0)
        self.n_features_in_ = features.shape[1]
        self.mean_ = features.mean(axis=0)
        # A feature that is constant, up to rounding, has no information: it stays 0 for new images too.
        constant = deviation <= 1e-7 * np.maximum(np.abs(self.mean_), 1e-30)
        self.scale_ = np.where(constant, np.inf, deviation)
        self._learn(self._standardised(features), grades, number_groups(groups, len(grades)))
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return scores (n,) float64 of features `X` (n, d). Raises InvalidInput if d is not that of `fit`."""
        check_is_fitted(self, "scale_")
        return self._scores(self._standardised(check_features(X, self.n_features_in_)))

    def standardised(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return features `X` (n, d) as multiples of the deviation in training; constant ones are 0."""
        check_is_fitted(self, "scale_")
        return self._standardised(check_features(X, self.n_features_in_)).astype(np.float32)

    def _standardised(self, features: Floats) -> Floats:
        return cast(Floats, (features - self.mean_) / self.scale_)

    @abstractmethod
    def _learn(self, Z: Floats, grades: Floats, groups: Integers) -> None:
        """Fit to standardised features `Z` (n, d), `grades` (n,) and `groups` (n,)."""

    @abstractmethod
    def _scores(self, Z: Floats) -> Floats:
        """Return scores (n,) of standardised features `Z` (n, d)."""


class LinearRanker(FeatureRanker):
    """A ranker whose scores are the products of standardised features with `coef_` (d,)."""

    coef_: Floats

    def _scores(self, Z: Floats) -> Floats:
        return Z @ self.coef_
