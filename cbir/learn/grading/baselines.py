"""Baselines that grade without ranking: regression, classification and ordinal regression (McCullagh 1980)."""

from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import check_is_fitted

from cbir.errors import InvalidInput
from cbir.learn.models.kernel_ranker import KernelMap, Tuning, fit_kernel_map
from cbir.learn.models.ranking_estimator import check_features, check_graded, number_groups

Floats = NDArray[np.float64]


class TunedFeatures:
    """Standardisation and a kernel map, fitted to graded features.

    Parameters
    ----------
    X : (n, d) float64
        Features.
    grades : (n,) float64
        Grades.
    groups : (n,) int
        Images of one group, such as a patient, are left out together.
    tuning : Tuning, optional
        Width and ridge; None: tuned.
    """

    def __init__(
        self, X: Floats, grades: Floats, groups: NDArray[np.int64], tuning: Tuning | None = None
    ) -> None:
        deviation = X.std(axis=0)
        self.mean = X.mean(axis=0)
        self.scale = np.where(deviation > 1e-7 * np.abs(self.mean), deviation, np.inf)
        self.map: KernelMap = fit_kernel_map(self._standardised(X), grades, groups, tuning=tuning)

    def __call__(self, X: Floats) -> Floats:
        """Return the features (n, r) of `X` (n, d)."""
        return self.map(self._standardised(X))

    def _standardised(self, X: Floats) -> Floats:
        return cast(Floats, (X - self.mean) / self.scale)


LEAST = 1e-300  # least probability
NARROWEST = -20.0  # least logarithm of a gap between thresholds
MOST_LEVELS = 50


class OrdinalRegression(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """P(grade <= level k | x) = sigmoid(thresholds_k - <coef, x>), for standardised features.

    With a ridge, which statsmodels' OrderedModel lacks; mord's models have another loss.

    Parameters
    ----------
    ridge : float
        Factor of |coef|^2 / 2, which is added to minus the sum of the log likelihoods.
    kernel : str
        "linear": standardised features; "auto": tuned kernel features (`cbir.learn.models.kernel_ranker`).
    tuning : (float, float), optional
        Width and ridge for "auto", instead of tuned ones.
    """

    name = "ordinal"

    def __init__(self, ridge: float = 1.0, kernel: str = "linear", tuning: Tuning | None = None) -> None:
        self.ridge, self.kernel, self.tuning = ridge, kernel, tuning

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : (n, d)
            Features.
        y : (n,)
            Grades, 2 to 50 different ones.
        groups : (n,), optional
            Groups of images, such as patients, for the tuning of "auto".

        Raises
        ------
        InvalidInput
            If these do not fit.
        """
        features, grades = check_graded(X, y)
        self.levels_, levels = number_levels(grades, "ordinal regression")
        self.n_features_in_ = features.shape[1]
        if self.kernel == "auto":
            self.features_ = TunedFeatures(features, grades, number_groups(groups, len(grades)), self.tuning)
            self.tuning_ = self.features_.map.tuning
            features = self.features_(features)
        self.mean_, deviation = features.mean(axis=0), features.std(axis=0)
        self.scale_ = np.where(deviation > 1e-7 * np.abs(self.mean_), deviation, np.inf)
        if (
            self.kernel == "auto"
        ):  # the ridge is that of errors with variance 1; a logistic error has pi^2 / 3
            self.scale_ = np.full(features.shape[1], np.sqrt(3.0) / np.pi)
        Z = (features - self.mean_) / self.scale_
        below = np.cumsum(np.bincount(levels))[:-1] / len(levels)
        start = np.log(below / (1.0 - below))
        gaps = np.log(np.maximum(np.diff(start), 1e-3))
        solution = minimize(
            _loss, np.concatenate([np.zeros(Z.shape[1]), start[:1], gaps]), (Z, levels, self.ridge), jac=True,
            method="L-BFGS-B", options={"maxiter": 500},
        ).x  # fmt: skip
        self.coef_ = solution[: Z.shape[1]]
        self.thresholds_ = _thresholds(solution[Z.shape[1] :])
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return the median grade (n,) of features `X` (n, d), one of `levels_`."""
        check_is_fitted(self, "coef_")
        return self.levels_[np.searchsorted(self.thresholds_, self.decision_function(X))]

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the position (n,) of features `X` (n, d) on the scale of the thresholds."""
        check_is_fitted(self, "coef_")
        features = check_features(X, self.n_features_in_)
        if self.kernel == "auto":
            features = self.features_(features)
        return cast(Floats, ((features - self.mean_) / self.scale_) @ self.coef_)


def number_levels(grades: Floats, method: str) -> tuple[Floats, NDArray[np.int64]]:
    """Return the levels of `grades` (n,) and the level number of each; raise InvalidInput for more than 50 or 1."""
    levels, numbers = np.unique(grades, return_inverse=True)
    if not 2 <= len(levels) <= MOST_LEVELS:
        raise InvalidInput(f"{method} takes 2 to {MOST_LEVELS} different grades, not {len(levels)}")
    return levels, numbers


def _thresholds(parameters: Floats) -> Floats:
    gaps = np.exp(np.maximum(parameters[1:], NARROWEST))
    return cast(Floats, parameters[0] + np.concatenate([[0.0], np.cumsum(gaps)]))


def _loss(parameters: Floats, Z: Floats, levels: NDArray[np.int64], ridge: float) -> tuple[float, Floats]:
    """Return minus the penalised log likelihood, and its gradient."""
    dimensions = Z.shape[1]
    coef, thresholds = parameters[:dimensions], _thresholds(parameters[dimensions:])
    scores = Z @ coef
    bounds = np.concatenate([[-np.inf], thresholds, [np.inf]])
    upper, lower = expit(bounds[levels + 1] - scores), expit(bounds[levels] - scores)
    likely = np.maximum(upper - lower, LEAST)
    up, down = upper * (1.0 - upper) / likely, lower * (1.0 - lower) / likely
    by_bound = np.bincount(levels + 1, up, len(bounds)) - np.bincount(levels, down, len(bounds))
    by_threshold = by_bound[1:-1]
    # A gap moves every threshold above it.
    gaps = np.exp(np.maximum(parameters[dimensions + 1 :], NARROWEST))
    by_gap = np.cumsum(by_threshold[::-1])[::-1][1:] * gaps
    gradient = -np.concatenate([Z.T @ (down - up), [by_threshold.sum()], by_gap])
    gradient[:dimensions] += ridge * coef
    return float(-np.log(likely).sum() + 0.5 * ridge * coef @ coef), gradient


class RegressionGrader(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Regression of the grades on standardised features.

    Parameters
    ----------
    C, epsilon : float
        Options of the SVR.
    kernel : str
        "rbf": support vector regression as Li et al. 2009 for cataract, with memory and time quadratic in n; "auto":
        ridge regression on tuned kernel features (`cbir.learn.models.kernel_ranker`).
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
