"""Grading without ranking: by regression, by classification, and by ordinal regression, in scikit-learn's form."""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import check_is_fitted

from cbir.errors import InvalidInput
from cbir.grading.ordinal import OrdinalRegression
from cbir.models.linear.input_checks import check_features, check_graded

MOST_LEVELS = 50


class RegressionGrader(BaseEstimator):
    """Support vector regression of the grades on standardised features (Li et al. 2009 graded cataract so).

    C, epsilon: of the SVR, with an RBF kernel. Training takes memory and time quadratic in n.
    """

    name = "regression"

    def __init__(self, C: float = 1.0, epsilon: float = 0.1) -> None:
        self.C = C
        self.epsilon = epsilon

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Learn from X (n, d) and y (n,); raises InvalidInput. groups: read by no rival."""
        features, grades = check_graded(X, y)
        self.n_features_in_ = features.shape[1]
        self.model_ = make_pipeline(StandardScaler(), SVR(C=self.C, epsilon=self.epsilon))
        self.model_.fit(features, grades)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Decimal grades (n,)."""
        check_is_fitted(self, "model_")
        return self.model_.predict(check_features(X, self.n_features_in_))


class ClassificationGrader(BaseEstimator):
    """One class a grade, whose order is not known: an SVM with RBF kernel, or linear discriminant analysis."""

    name = "classification"

    def __init__(self, classifier: Literal["svm", "lda"] = "svm") -> None:
        self.classifier = classifier

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Learn from X (n, d) and y (n,), of at most 50 different grades; raises InvalidInput."""
        features, grades = check_graded(X, y)
        makers = {"svm": SVC, "lda": LinearDiscriminantAnalysis}
        if self.classifier not in makers:
            raise InvalidInput(f"the classifier is svm or lda, not {self.classifier!r}")
        self.levels_, classes = np.unique(grades, return_inverse=True)
        if not 2 <= len(self.levels_) <= MOST_LEVELS:
            raise InvalidInput(
                f"classification takes 2 to {MOST_LEVELS} different grades, not {len(self.levels_)}"
            )
        self.n_features_in_ = features.shape[1]
        self.model_ = make_pipeline(StandardScaler(), makers[self.classifier]()).fit(features, classes)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Grades (n,), of those there were."""
        check_is_fitted(self, "model_")
        return self.levels_[self.model_.predict(check_features(X, self.n_features_in_))]


RIVALS = (RegressionGrader, ClassificationGrader, OrdinalRegression)


def names() -> tuple[str, ...]:
    """What `rival` knows."""
    return tuple(member.name for member in RIVALS)


def rival(name: str) -> RegressionGrader | ClassificationGrader | OrdinalRegression:
    """A rival by name, not yet fitted; raises InvalidInput for an unknown one."""
    for member in RIVALS:
        if member.name == name:
            return member()
    raise InvalidInput(f"there is no rival {name!r}; there are: {', '.join(names())}")
