"""Tuned kernel features against ridge regression and leave-one-group-out refits done the slow way."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from cbir.learn import grading
from cbir.learn.grading import RankingSVM, SNdcgRanker
from cbir.learn.grading.baselines import OrdinalRegression, RegressionGrader, baseline_grader
from cbir.learn.models.kernel_ranker import Tuning, fit_kernel_map, kernels, left_out_residuals
from tests.cbir.learn.grading.cases import drawn
from tests.cbir.learn.grading.test_kernel import bent


def standardised(count=60, dimensions=5, **options):
    X, y, patients = drawn(count, dimensions, **options)
    return (X - X.mean(0)) / X.std(0), y, patients


@pytest.mark.parametrize("width", [0.0, 0.7])
def test_residuals_are_those_of_refits_without_the_group(width):
    Z, y, patients = standardised()
    patients[:7] = 0
    targets, ridge = y - y.mean(), 0.3
    matrix = kernels(Z, Z, width)
    values, vectors = np.linalg.eigh(matrix)
    members = [np.flatnonzero(patients == patient) for patient in np.unique(patients)]
    expected = np.empty(len(y))
    for rows in members:
        others = np.setdiff1d(np.arange(len(y)), rows)
        model = KernelRidge(alpha=ridge, kernel="precomputed")
        model.fit(matrix[np.ix_(others, others)], targets[others])
        expected[rows] = targets[rows] - model.predict(matrix[np.ix_(rows, others)])
    np.testing.assert_allclose(left_out_residuals(values + ridge, vectors, targets, members), expected)


@pytest.mark.parametrize(("width", "kernel"), [(0.0, "linear"), (0.8, "rbf")])
def test_ridge_regression_on_the_features_is_kernel_ridge_regression(width, kernel):
    Z, y, patients = standardised()
    features = fit_kernel_map(Z, y, patients, tuning=Tuning(width, 0.2))
    new = np.random.default_rng(1).normal(size=(9, 5))
    model = KernelRidge(alpha=0.2, kernel=kernel, gamma=width or None).fit(Z / 5**0.5, y - y.mean())
    ridge = Ridge(1.0, fit_intercept=False).fit(features(Z), y - y.mean())
    # landmarks have the precision of float32
    np.testing.assert_allclose(
        ridge.predict(features(new)), model.predict(new / 5**0.5), rtol=1e-3, atol=1e-4
    )


def test_many_values_are_projected_first():
    random = np.random.default_rng(0)
    factors = random.normal(size=(90, 4))
    wide = factors @ random.normal(size=(4, 700)) + 0.01 * random.normal(size=(90, 700))
    y = np.rint(factors[:, 0]).clip(-1, 1)
    features = fit_kernel_map(wide, y, np.arange(90), tuning=Tuning(0.0, 1.0))
    assert features.axes.shape[1] <= 90
    lengths = (features(wide) ** 2).sum(axis=1)
    assert lengths.mean() == pytest.approx(1.0, rel=1e-6)
    weights = random.normal(size=features.axes.shape[1])
    np.testing.assert_allclose(wide @ features.linear_weights(weights), features(wide) @ weights)


def test_the_kernel_fits_the_grades():
    X, y, patients = drawn(120, 30, noise=2.0)
    assert fit_kernel_map((X - X.mean(0)) / X.std(0), y, patients).tuning.width <= 0.25
    X, y = bent(120)
    assert fit_kernel_map(X, y, np.arange(120)).tuning.width > 0


def test_images_of_a_patient_do_not_choose_the_ridge():
    """Doubled images of random grades would each be graded by their copy: the least ridge would seem best."""
    random = np.random.default_rng(0)
    Z, y = random.normal(size=(50, 6)), random.integers(0, 4, 50).astype(float)
    Z, y = np.repeat(Z, 2, axis=0), np.repeat(y, 2)
    together = fit_kernel_map(Z, y, np.repeat(np.arange(50), 2)).tuning
    apart = fit_kernel_map(Z, y, np.arange(100)).tuning
    assert together.ridge > 10 * apart.ridge


@pytest.mark.parametrize("name", ["s-ndcg", "ranking-svm", "regression", "ordinal"])
def test_every_grader_profits(name):
    X, y = bent(120)
    new, truth = bent(80, seed=1)

    def grader(**options):
        make = grading.make_ranker if name in grading.names() else baseline_grader
        return make(name, **options).fit(X, y)

    tuned = grader(kernel="auto")
    assert np.corrcoef(tuned.predict(new), truth)[0, 1] > 0.5
    again = grader(kernel="auto", tuning=tuned.tuning_)
    np.testing.assert_array_equal(again.predict(new), tuned.predict(new))


@pytest.mark.parametrize("name", ["s-ndcg", "ranking-svm", "regression", "ordinal"])
def test_more_values_than_images(name):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 300)), np.arange(60) % 3
    X[:, :40] += y[:, None]
    make = grading.make_ranker if name in grading.names() else baseline_grader
    fitted = make(name, kernel="auto").fit(X[:40], y[:40])
    assert np.corrcoef(fitted.predict(X[40:]), y[40:])[0, 1] > 0.7


@pytest.mark.parametrize("width", [0.0, 0.5])
def test_width_and_ridge_may_be_plain_numbers(width):
    X, y, patients = drawn(30)
    mapped = [fit_kernel_map(X, y, patients, tuning=tuning)(X) for tuning in ((width, 2), Tuning(width, 2))]
    assert np.array_equal(*mapped)


def test_features_without_a_difference():
    fitted = grading.make_ranker("ranking-svm", kernel="auto").fit(np.ones((9, 2)), [1, 2, 3] * 3)
    assert np.ptp(fitted.predict(np.ones((4, 2)))) == 0


def test_the_tuning_does_not_depend_on_where_grades_begin():
    Z, y, patients = standardised(noise=1.0)
    assert fit_kernel_map(Z, y + 1000, patients).tuning == fit_kernel_map(Z, y, patients).tuning


def features_and_ranks(width, ridge):
    """Return values (40, 5), tuned features of them, and grades that are all different."""
    Z, _, _ = standardised(40)
    y = np.random.default_rng(2).permutation(40).astype(float)
    return Z, fit_kernel_map(Z, y, np.arange(40), tuning=Tuning(width, ridge))(Z), y


@pytest.mark.parametrize("width", [0.0, 0.5])
def test_pairs_within_the_margin_have_the_tuned_ridge(width):
    """Their squares, of 1 - (s_i - s_j), add up to n times those of s_i - (2 rank - n - 1) / n, and constants."""
    Z, F, y = features_and_ranks(width, 30.0)
    made = RankingSVM(kernel="auto", tuning=Tuning(width, 30.0), tolerance=1e-12).fit(Z, y)
    scores = made.predict(Z)
    assert np.ptp(scores) < 1, "all pairs are within the margin"
    ridge = Ridge(1.0).fit(F, (2 * (y + 1) - 41) / 40).predict(F)
    np.testing.assert_allclose(scores - scores.mean(), ridge - ridge.mean(), rtol=1e-4, atol=1e-7)


def test_regression_has_the_tuned_ridge():
    Z, _, y = features_and_ranks(0.0, 0.2)
    found = RegressionGrader(kernel="auto", tuning=Tuning(0.0, 0.2)).fit(Z, y).predict(Z)
    expected = KernelRidge(alpha=0.2).fit(Z / 5**0.5, y - y.mean()).predict(Z / 5**0.5)
    np.testing.assert_allclose(found, y.mean() + expected)


def test_the_start_of_s_ndcg_has_the_tuned_ridge():
    Z, F, y = features_and_ranks(0.0, 0.2)
    scores = SNdcgRanker(kernel="auto", tuning=Tuning(0.0, 0.2), steps=0).fit(Z, y / 10).predict(Z)
    expected = Ridge(1.0).fit(F, 2 ** (y / 10)).predict(F)
    assert np.corrcoef(scores, expected)[0, 1] == pytest.approx(1, abs=1e-9)


def test_ordinal_regression_has_the_tuned_ridge_of_a_logistic_error():
    """The ridge is of errors with variance 1; in units of a logistic error, with variance pi^2 / 3, it is less."""
    Z, F, y = features_and_ranks(0.0, 0.2)
    y = np.searchsorted([12, 28], y).astype(float)
    made = OrdinalRegression(kernel="auto", tuning=Tuning(0.0, 0.2)).fit(Z, y)

    def loss(weights):
        below = expit(np.append(weights[5:], np.inf)[:, None] - F @ weights[:5])
        likely = np.diff(below, axis=0, prepend=0.0)[y.astype(int), np.arange(40)]
        return -np.log(likely).sum() + 0.5 * 3 / np.pi**2 * (weights[:5] ** 2).sum()

    found = minimize(loss, [0.0] * 5 + [-1.0, 1.0], tol=1e-9).x
    centred = made.decision_function(Z) - made.decision_function(Z).mean()
    np.testing.assert_allclose(centred, F @ found[:5] - (F @ found[:5]).mean(), atol=2e-3)
