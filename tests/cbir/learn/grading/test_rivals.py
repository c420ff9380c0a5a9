"""Grading by regression, classification and ordinal regression."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVR

from cbir.errors import InvalidInput
from cbir.learn.grading import baselines
from cbir.learn.grading.baselines import ClassificationGrader, OrdinalRegression, baseline_grader, names
from tests.cbir.learn.grading.cases import drawn

EVERY = pytest.mark.parametrize("name", names())


@EVERY
def test_conventions(name):
    X, y, _ = drawn(300, noise=0.2)
    made = baseline_grader(name)
    with pytest.raises(NotFittedError):
        made.predict(X)
    assert made.fit(X[:200], y[:200]) is made
    found = made.predict(X[200:])
    assert np.abs(found - y[200:]).mean() < 0.4
    np.testing.assert_array_equal(clone(made).fit(X[:200], y[:200]).predict(X[200:]), found)
    assert made.predict(X[:0]).shape == (0,) if name == "ordinal" else True


@EVERY
@pytest.mark.parametrize(
    ("X", "y"),
    [([[1.0], [np.nan]], [1, 2]), ([[1.0], [2.0]], [1, np.inf]), ([1.0, 2.0], [1, 2]), ([[1.0]], [1, 2])],
)
def test_refused(name, X, y):
    with pytest.raises(InvalidInput):
        baseline_grader(name).fit(X, y)


@pytest.mark.parametrize("name", ["classification", "ordinal"])
def test_levels(name):
    X, y, _ = drawn()
    assert set(baseline_grader(name).fit(X, y / 2).predict(X)) <= set(y / 2)
    with pytest.raises(InvalidInput, match="2 to 50 different grades"):
        baseline_grader(name).fit(X, np.ones(len(X)))
    with pytest.raises(InvalidInput, match="2 to 50 different grades"):
        baseline_grader(name).fit(X, np.arange(len(X)))


@pytest.mark.parametrize("name", ["classification", "ordinal"])
def test_fifty_levels_are_the_most(name):
    X = np.arange(102.0)[:, None]
    found = baseline_grader(name).fit(X, X[:, 0] // 2.05).predict(X)
    assert 2 <= len(np.unique(found)) <= 50
    with pytest.raises(InvalidInput, match="not 51"):
        baseline_grader(name).fit(X, X[:, 0] // 2)


def test_classifiers():
    X, y, _ = drawn()
    assert (ClassificationGrader("lda").fit(X, y).predict(X) == y).mean() > 0.6
    with pytest.raises(InvalidInput, match="svm or lda"):
        ClassificationGrader("tree").fit(X, y)


@pytest.mark.parametrize("C", [0.0, -1.0, np.nan, np.inf])
def test_regression_needs_a_finite_c_above_0(C):
    with pytest.raises(InvalidInput, match="the C of regression"):
        baseline_grader("regression", C=C).fit(np.arange(4.0)[:, None], [0, 1, 2, 3])


def test_unknown():
    with pytest.raises(InvalidInput, match="regression, classification, ordinal"):
        baseline_grader("forest")


def test_ordinal_is_the_proportional_odds_model():
    ordinal_model = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    X, y, _ = drawn(400, noise=1.5)
    made = OrdinalRegression(ridge=1e-6).fit(X, y)
    Z = (X - X.mean(0)) / X.std(0)
    reference = ordinal_model.OrderedModel(y, Z, distr="logit").fit(method="bfgs", disp=False, maxiter=500)
    np.testing.assert_allclose(made.coef_, reference.params[:6], rtol=0.01, atol=0.01)
    thresholds = reference.model.transform_threshold_params(reference.params)[1:-1]
    np.testing.assert_allclose(made.thresholds_, thresholds, rtol=0.01, atol=0.01)


def test_gradient_of_ordinal():
    X, y, _ = drawn(30)
    Z, levels = (X - X.mean(0)) / X.std(0), np.unique(y, return_inverse=True)[1]
    at = np.random.default_rng(0).normal(size=6 + 3) / 3
    off = check_grad(
        lambda p: baselines._loss(p, Z, levels, 1.0)[0],
        lambda p: baselines._loss(p, Z, levels, 1.0)[1],
        at,
    )
    assert off < 1e-3


def test_ordinal_where_grades_part_perfectly():
    fitted = OrdinalRegression().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    assert (np.diff(fitted.thresholds_) > 0).all()
    assert fitted.predict([[-9.0], [9.0]]).tolist() == [0, 2]


@pytest.mark.parametrize("options", [{}, {"C": 0.05}, {"epsilon": 0.8}, {"C": 3.0, "epsilon": 0.4}])
def test_regression_is_that_of_libsvm_on_standardised_features(options):
    X, y, _ = drawn(60)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = SVR(**{"C": 1.0, "epsilon": 0.1, **options}).fit(Z, y).predict(Z)
    np.testing.assert_allclose(
        baseline_grader("regression", **options).fit(X, y).predict(X), expected, rtol=1e-6
    )
