"""TopPush against a slow, plain form of what it minimises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from cbir.errors import InvalidInput
from cbir.evaluation.rank_metrics import auc, pos_at_top
from cbir.learn.grading import RankingSVM
from cbir.learn.models.linear_rankers import TopPush, project_dual


def overlapping(m=15, n=40, d=4, apart=1.0, seed=0):
    """Two clouds that share some ground."""
    random = np.random.default_rng(seed)
    positive = np.arange(m + n) < m
    features = random.standard_normal((m + n, d))
    features[positive, 0] += apart
    return features, positive


def top_push_objective(w, features, positive, regularisation):
    scores = features @ w
    losses = np.maximum(0, 1 + scores[~positive].max() - scores[positive]) ** 2
    return regularisation / 2 * w @ w + losses.mean()


@pytest.mark.parametrize("regularisation", [0.01, 0.1, 1.0, 100.0])
def test_top_push_finds_the_minimum(regularisation):
    features, positive = overlapping(apart=4.0)  # nearer, the mean positive is among the negatives: w = 0
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    d = features.shape[1]

    def objective(v):  # the highest negative as a variable of its own
        losses = np.maximum(0, 1 + v[d] - features[positive] @ v[:d]) ** 2
        return regularisation / 2 * v[:d] @ v[:d] + losses.mean()

    below = {"type": "ineq", "fun": lambda v: v[d] - features[~positive] @ v[:d]}
    reference = minimize(
        objective,
        np.zeros(d + 1),
        method="SLSQP",
        constraints=[below],
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    found = TopPush(regularisation, tolerance=1e-8, max_iterations=100_000).fit(features, positive)
    assert found.gap_ < 1e-6
    assert 0.0 < reference.fun < 0.999  # 1 at w = 0
    at = top_push_objective(found.coef_, features, positive, regularisation)
    assert at == pytest.approx(reference.fun, rel=1e-5)
    assert found.coef_ == pytest.approx(reference.x[:d], abs=2e-3)


@settings(max_examples=200)
@given(arrays(np.float64, st.integers(2, 20), elements=st.floats(-5, 5)), st.integers(1, 19))
def test_projection(point, m):
    m = min(m, len(point) - 1)
    found = project_dual(point, m)
    assert (found >= 0).all()
    assert found[:m].sum() == pytest.approx(found[m:].sum(), abs=1e-9)
    low, high = -20.0, 20.0  # the same by halving
    for _ in range(80):
        t = (low + high) / 2
        above = np.maximum(0, point[:m] - t).sum() > np.maximum(0, point[m:] + t).sum()
        low, high = (t, high) if above else (low, t)
    expected = np.concatenate([np.maximum(0, point[:m] - low), np.maximum(0, point[m:] + low)])
    assert found == pytest.approx(expected, abs=1e-8)


def test_each_is_best_at_its_own():
    features, positive = overlapping(60, 600, d=3, apart=1.5)
    heavy = np.arange(len(positive)) >= len(positive) - 12  # some negatives that look more than positive
    features[heavy] = features[heavy] / 4 + [4.0, 4.0, 0.0]
    ordered = RankingSVM(1.0).fit(features, positive).predict(features)
    pushed = TopPush(0.01).fit(features, positive).predict(features)
    assert auc(ordered, positive) > auc(pushed, positive)
    assert pos_at_top(pushed, positive) > pos_at_top(ordered, positive)


def test_separable():
    features, positive = overlapping(apart=30.0)
    assert pos_at_top(TopPush().fit(features, positive).predict(features), positive) == 1.0


def test_same_again():
    features, positive = overlapping()
    assert (TopPush().fit(features, positive).coef_ == TopPush().fit(features, positive).coef_).all()


def test_one_of_each():
    scores = TopPush().fit([[1.0, 0.0], [0.0, 0.0]], [1, 0]).predict([[1.0, 0.0], [0.0, 0.0]])
    assert scores[0] > scores[1]


def test_all_alike():
    assert TopPush().fit(np.ones((9, 3)), np.arange(9) < 4).coef_.tolist() == [0, 0, 0]


def test_more_dimensions_than_images():
    features, positive = overlapping(5, 9, d=200)
    assert pos_at_top(TopPush().fit(features, positive).predict(features), positive) == 1.0


def test_no_pairs_are_formed():
    features, positive = overlapping(20_000, 100_000, d=3)  # all pairs would be 48 GB
    assert np.isfinite(TopPush().fit(features, positive).coef_).all()


@pytest.mark.parametrize(
    ("features", "grades"),
    [
        (np.ones((3, 2)), [1, 1, 1]),
        (np.ones((3, 2)), [0, 1, 2]),
        (np.ones((0, 2)), []),
        (np.ones((3, 2)), [1, 0]),
        ([[np.nan], [1.0]], [1, 0]),
        ([[np.inf], [1.0]], [1, 0]),
    ],
)
def test_what_cannot_be_learnt(features, grades):
    with pytest.raises(InvalidInput):
        TopPush().fit(features, grades)


@pytest.mark.parametrize(
    "wrong", [{"regularisation": 0}, {"regularisation": np.nan}, {"tolerance": 0}, {"max_iterations": 0}]
)
def test_options_out_of_range(wrong):
    with pytest.raises(InvalidInput):
        TopPush(**wrong).fit(*overlapping())
