"""RankSVM and TopPush against slow, plain forms of what they minimise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from cbir.errors import InvalidInput
from cbir.evaluation.triage import auc, pos_at_top
from cbir.models.linear import RankSvm, TopPush
from cbir.models.linear.rank_svm import pair_losses
from cbir.models.linear.top_push import project

RANKERS = [RankSvm(), TopPush()]


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


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_rank_svm_is_a_linear_svm_on_all_pairs(C):
    features, positive = overlapping()
    pairs = (features[positive][:, None] - features[~positive][None]).reshape(-1, features.shape[1])
    sign = np.where(np.arange(len(pairs)) % 2, 1, -1)  # a classifier wants two classes
    reference = LinearSVC(C=C, fit_intercept=False, dual=False, tol=1e-10, max_iter=100_000)
    reference.fit(pairs * sign[:, None], sign)
    found = RankSvm(C, tolerance=1e-10).fit(features, positive)
    assert found.weights_ == pytest.approx(reference.coef_[0], rel=1e-4, abs=1e-6)


@given(
    arrays(np.float64, st.integers(1, 12), elements=st.floats(-3, 3)),
    arrays(np.float64, st.integers(1, 12), elements=st.floats(-3, 3)),
)
def test_losses_of_all_pairs(positives, negatives):
    margins = np.maximum(0, 1 - positives[:, None] + negatives)
    loss, slopes = pair_losses(positives, negatives)
    assert loss == pytest.approx((margins**2).sum(), abs=1e-9)
    expected = np.concatenate([-2 * margins.sum(axis=1), 2 * margins.sum(axis=0)])
    assert slopes == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("regularisation", [0.01, 0.1, 1.0, 100.0])
def test_top_push_finds_the_minimum(regularisation):
    features, positive = overlapping()
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
    found = TopPush(regularisation, tolerance=1e-8, steps=100_000).fit(features, positive)
    assert found.gap_ < 1e-6
    at = top_push_objective(found.weights_, features, positive, regularisation)
    assert at == pytest.approx(reference.fun, rel=1e-5)
    assert found.weights_ == pytest.approx(reference.x[:d], abs=2e-3)


@settings(max_examples=200)
@given(arrays(np.float64, st.integers(2, 20), elements=st.floats(-5, 5)), st.integers(1, 19))
def test_projection(point, m):
    m = min(m, len(point) - 1)
    found = project(point, m)
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
    ordered = RankSvm(1.0).fit(features, positive).scores(features)
    pushed = TopPush(0.01).fit(features, positive).scores(features)
    assert auc(ordered, positive) > auc(pushed, positive)
    assert pos_at_top(pushed, positive) > pos_at_top(ordered, positive)


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)
class TestEvery:
    def test_separable(self, ranker):
        features, positive = overlapping(apart=30.0)
        assert pos_at_top(ranker.fit(features, positive).scores(features), positive) == 1.0

    def test_same_again(self, ranker):
        features, positive = overlapping()
        assert (ranker.fit(features, positive).weights_ == ranker.fit(features, positive).weights_).all()

    def test_one_of_each(self, ranker):
        scores = ranker.fit([[1.0, 0.0], [0.0, 0.0]], [1, 0]).scores([[1.0, 0.0], [0.0, 0.0]])
        assert scores[0] > scores[1]

    def test_all_alike(self, ranker):
        features = np.ones((9, 3))
        assert ranker.fit(features, np.arange(9) < 4).weights_ == pytest.approx([0, 0, 0], abs=1e-9)

    def test_more_dimensions_than_images(self, ranker):
        features, positive = overlapping(5, 9, d=200)
        assert pos_at_top(ranker.fit(features, positive).scores(features), positive) == 1.0

    def test_no_pairs_are_formed(self, ranker):
        features, positive = overlapping(20_000, 100_000, d=3)  # all pairs would be 48 GB
        assert np.isfinite(ranker.fit(features, positive).weights_).all()

    @pytest.mark.parametrize(
        ("features", "positive"),
        [
            (np.ones((3, 2)), [1, 1, 1]),
            (np.ones((3, 2)), [0, 0, 0]),
            (np.ones((0, 2)), []),
            (np.ones((3, 0)), [1, 0, 0]),
            (np.ones(3), [1, 0, 0]),
            (np.ones((3, 2)), [1, 0]),
            ([[np.nan], [1.0]], [1, 0]),
            ([[np.inf], [1.0]], [1, 0]),
            ([[1e200], [1.0]], [1, 0]),
        ],
    )
    def test_what_cannot_be_learnt(self, ranker, features, positive):
        with pytest.raises(InvalidInput):
            type(ranker)().fit(features, positive)

    def test_what_cannot_be_scored(self, ranker):
        with pytest.raises(InvalidInput, match="fit"):
            type(ranker)().scores(np.ones((1, 2)))
        with pytest.raises(InvalidInput, match=r"\(n, 4\)"):
            ranker.fit(*overlapping()).scores(np.ones((1, 2)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: RankSvm(0),
        lambda: RankSvm(np.nan),
        lambda: TopPush(-1),
        lambda: TopPush(1, tolerance=0),
        lambda: TopPush(steps=0),
    ],
)
def test_options_out_of_range(make):
    with pytest.raises(InvalidInput):
        make()
