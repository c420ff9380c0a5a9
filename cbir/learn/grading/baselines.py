"""Baselines that grade without ranking: regression, classification and ordinal regression."""

from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import check_is_fitted

from cbir.errors import InvalidInput
from cbir.learn.grading.ordinal_regression import OrdinalRegression, number_levels
from cbir.learn.grading.tuned_features import TunedFeatures
from cbir.learn.models.linear.kernel_ranker import Tuning
from cbir.learn.models.linear.ranking_estimator import check_features, check_graded, number_groups

Floats = NDArray[np.float64]


class RegressionGrader(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Regression of the grades on standardised features.

    Parameters
    ----------
    C, epsilon : float
        Options of the SVR.
    kernel : str
        "rbf": support vector regression as Li et al. 2009 for cataract, with memory and time quadratic in n; "auto":
        ridge regression on tuned kernel features (`cbir.learn.models.linear.kernel_ranker`).
    tuning : (float, float), optional
        Width and ridge for "auto", instead of tuned ones.
    """

    name = "regression"

    def __init__(
        self, C: float = 1.0, epsilon: float = 0.1, kernel: str = "rbf", tuning: Tuning | None = None
    ) -> None:
        self.C, self.epsilon, self.kernel, self.tuning = C, epsilon, kernel, tuning

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Fit to features `X` (n, d) and grades `y` (n,); only "auto" uses `groups`. Raises InvalidInput."""
        features, grades = check_graded(X, y)
        self.n_features_in_ = features.shape[1]
        if self.kernel == "auto":
            tuned = TunedFeatures(features, grades, number_groups(groups, len(grades)), self.tuning)
            self.tuning_ = tuned.map.tuning
            self.model_ = make_pipeline(FunctionTransformer(tuned), Ridge(1.0)).fit(features, grades)
            return self
        if not 0 < self.C < np.inf:
            raise InvalidInput(f"the C of {self.name} must be a number above 0, not {self.C!r}")
        self.model_ = make_pipeline(StandardScaler(), SVR(C=self.C, epsilon=self.epsilon)).fit(
            features, grades
        )
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return decimal grades (n,) of features `X` (n, d)."""
        check_is_fitted(self, "model_")
        return cast(Floats, self.model_.predict(check_features(X, self.n_features_in_)))


class ClassificationGrader(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classification with an unordered class per grade: an SVM with RBF kernel, or linear discriminant analysis."""

    name = "classification"

    def __init__(self, classifier: Literal["svm", "lda"] = "svm") -> None:
        self.classifier = classifier

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Fit to features `X` (n, d) and 2 to 50 different grades `y` (n,); ignore `groups`. Raises InvalidInput."""
        features, grades = check_graded(X, y)
        classifiers = {"svm": SVC, "lda": LinearDiscriminantAnalysis}
        if self.classifier not in classifiers:
            raise InvalidInput(f"the classifier is svm or lda, not {self.classifier!r}")
        self.levels_, classes = number_levels(grades, "classification")
        self.n_features_in_ = features.shape[1]
        self.model_ = make_pipeline(StandardScaler(), classifiers[self.classifier]()).fit(features, classes)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return grades (n,) of features `X` (n, d), from those in training."""
        check_is_fitted(self, "model_")
        return cast(Floats, self.levels_[self.model_.predict(check_features(X, self.n_features_in_))])


BASELINES = (RegressionGrader, ClassificationGrader, OrdinalRegression)


def names() -> tuple[str, ...]:
    """Return the names that `baseline_grader` accepts."""
    return tuple(member.name for member in BASELINES)


def baseline_grader(name: str, **options: Any) -> RegressionGrader | ClassificationGrader | OrdinalRegression:
    """Make the baseline called `name` with `options`, not fitted. Raises InvalidInput if it is unknown."""
    for member in BASELINES:
        if member.name == name:
            return member(**options)
    raise InvalidInput(f"there is no baseline {name!r}; there are: {', '.join(names())}")
