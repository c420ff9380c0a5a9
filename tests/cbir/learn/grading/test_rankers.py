"""Each ranker against a slow and obvious form of it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.linear_model import Ridge
from sklearn.metrics import ndcg_score
from sklearn.svm import LinearSVC

from cbir.errors import InvalidInput
from cbir.learn.grading import AdaRank, RankBoost, RankingSVM, SNdcgRanker, s_ndcg_ranker
from cbir.learn.grading.s_ndcg_ranker import SmoothSteps, hold_out_groups, mean_s_ndcg, s_ndcg
from cbir.learn.losses import SNdcgLoss
from cbir.learn.models.ranking_estimator import (
    Pairs,
    assign_lists,
    kendall_tau,
    mean_or_nan,
    ndcg,
    ndcg_gains,
    ndcg_of_lists,
    rows_by_list,
)
from tests.cbir.learn.grading.cases import drawn

CASES = st.integers(2, 25).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-3, 3), min_size=n, max_size=n),
        st.lists(st.integers(0, 5), min_size=n, max_size=n),
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
    )
)


# lists, pairs and measures


@pytest.mark.parametrize(("count", "size", "lists"), [(100, 20, 5), (119, 20, 5), (7, 20, 1), (900, None, 1)])
def test_cut(count, size, lists):
    found = assign_lists(count, size, np.random.default_rng(0))
    sizes = np.bincount(found)
    assert len(sizes) == lists
    assert sizes.max() - sizes.min() <= 1
    assert sorted(np.concatenate(rows_by_list(found)).tolist()) == list(range(count))


@given(CASES, st.sampled_from([0.0, 1.0, 2.5]))
def test_sums_over_pairs(case, margin):
    scores, grades, lists = (np.array(part) for part in case)
    scores = scores / 2
    values = np.random.default_rng(0).normal(size=len(scores))
    found = Pairs(grades.astype(float), lists).within(scores, margin)
    pair = (grades[:, None] > grades) & (lists[:, None] == lists) & (scores[:, None] - scores < margin)
    np.testing.assert_allclose(found.of_lower(values), pair @ values, atol=1e-12)
    np.testing.assert_allclose(found.of_higher(values), pair.T @ values, atol=1e-12)


@given(CASES)
def test_kendall_tau(case):
    scores, grades, lists = (np.array(part) for part in case)
    found = kendall_tau(scores / 7, grades.astype(float), lists)
    for number, rows in enumerate(rows_by_list(lists)):
        signs = np.sign(scores[rows, None] - scores[rows]) * np.sign(grades[rows, None] - grades[rows])
        n = len(rows)
        assert found[np.unique(lists)[number]] == pytest.approx(signs.sum() / 2 / max(n * (n - 1) / 2, 1))


def test_kendall_tau_without_ties_is_scipys():
    random = np.random.default_rng(0)
    a, b = random.normal(size=50), random.normal(size=50)
    assert kendall_tau(a, b, np.zeros(50, int)) == pytest.approx(kendalltau(a, b).statistic)


@given(CASES)
def test_ndcg(case):
    scores, grades, _ = (np.array(part, float) for part in case)
    found = ndcg(scores, ndcg_gains(grades))
    if grades.max() == 0:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(ndcg_score([2**grades - 1], [scores]))


def test_mean_ndcg_leaves_out_lists_without_gain():
    scores, grades = np.array([1.0, 2, 3, 4]), np.array([0.0, 0, 0, 1])
    assert mean_or_nan(ndcg_of_lists(scores, grades, np.array([0, 0, 1, 1]))) == 1
    assert math.isnan(mean_or_nan(ndcg_of_lists(scores, grades * 0, np.array([0, 0, 1, 1]))))


# S-NDCG


@pytest.mark.parametrize(("form", "alpha"), [("sigmoid", 2.0), ("paper", 0.05)])
def test_s_ndcg_and_its_gradient_are_the_losss(form, alpha):
    random = np.random.default_rng(1)
    scores, grades = random.normal(size=12), random.integers(0, 5, 12).astype(float)
    value, slopes = s_ndcg(scores, ndcg_gains(grades), form, alpha)
    tensor = torch.tensor(scores, requires_grad=True)
    loss = SNdcgLoss(form, alpha)(tensor, torch.tensor(grades))
    loss.backward()
    assert value == pytest.approx(1 - float(loss.detach()))
    np.testing.assert_allclose(slopes, -tensor.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize(("form", "alpha"), [("sigmoid", 2.0), ("paper", 0.05)])
def test_the_gradient_of_several_lists_is_that_of_their_mean(form, alpha):
    random = np.random.default_rng(2)
    scores, grades = random.normal(size=24), random.integers(0, 5, 24).astype(float)
    grades[16:] = 0.0  # a list without gain counts as 0
    lists = [np.arange(10), np.arange(10, 16), np.arange(16, 24)]
    value, slopes = mean_s_ndcg(scores, ndcg_gains(grades), lists, form, alpha)
    tensor = torch.tensor(scores, requires_grad=True)
    losses = [SNdcgLoss(form, alpha)(tensor[rows], torch.tensor(grades[rows])) for rows in lists[:2]]
    mean = sum(1 - loss for loss in losses) / 3
    mean.backward()
    assert value == pytest.approx(float(mean.detach()), abs=1e-6)
    np.testing.assert_allclose(slopes, tensor.grad.numpy(), atol=1e-6)
    assert np.abs(slopes[:16]).max() > 1e-3


@pytest.mark.parametrize("function", ["linear", "exponential"])
def test_steps_as_printed(function):
    """Table I and eq. 9 with autograd, from theta 0, on standardised features."""
    X, y, _ = drawn(30)
    made = SNdcgRanker("paper", function, steps=3, list_size=None, validation=0).fit(X, y)
    Z = torch.tensor((X - X.mean(0)) / X.std(0))
    theta, expected, values = torch.zeros(6, dtype=torch.float64), [np.zeros(6)], []
    for _ in range(4):
        theta = theta.requires_grad_()
        scores = Z @ theta if function == "linear" else (Z @ theta).exp()
        value = 1 - SNdcgLoss("paper")(scores, torch.tensor(y))
        value.backward()
        values.append(float(value.detach()))
        theta = (theta + 0.05 * theta.grad).detach()
        expected.append(theta.numpy())
    assert made.chosen_ > 0
    np.testing.assert_allclose(made.coef_, expected[made.chosen_], rtol=1e-6)
    np.testing.assert_allclose(made.objective_, values, rtol=1e-9)
    assert (np.diff(made.objective_) > 0).all()


def misled(seed, count=300):
    """A clean feature whose highest values are far out, and a noisy one, which squared errors prefer."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 4, count).astype(float)
    X = y[:, None] + random.normal(size=(count, 2)) * [0.1, 2.0]
    X[:, 0] += np.where((random.random(count) < 0.1) & (y == 3), random.uniform(8, 16, count), 0)
    return X, y


@pytest.mark.parametrize("start", ["regression", "zero"])
@pytest.mark.parametrize("seed", range(3))
def test_the_ascent_climbs_and_ranks_new_images_better(start, seed):
    (X, y), (new, truth) = misled(seed), misled(seed + 100, 1000)
    made, without = (SNdcgRanker(start=start, steps=steps).fit(X, y) for steps in (30, 0))
    assert len(without.objective_) == 1
    assert (np.diff(made.objective_) > 0).all()
    assert made.objective_[-1] > made.objective_[0] + 0.002
    assert made.score(new, truth) > without.score(new, truth) + 0.005


@pytest.mark.parametrize("function", ["linear", "exponential"])
def test_the_objective_is_s_ndcg_of_the_scores(function):
    X, y = misled(0, 90)
    made = SNdcgRanker(function=function, list_size=None, validation=0, steps=4).fit(X, y)
    scores = torch.tensor(made.predict(X))
    value = 1 - float(SNdcgLoss("sigmoid", 12.0)(scores, torch.tensor(y)))
    assert made.objective_[made.chosen_] == pytest.approx(value, abs=1e-9)


def test_without_steps_it_is_ridge_regression_on_the_gains():
    X, y, _ = drawn(200, noise=1.0)
    made = SNdcgRanker(steps=0).fit(X, y)
    Z = (X - X.mean(0)) / X.std(0)
    ridge = Ridge(0.1 * len(y)).fit(Z, 2**y - 1).coef_
    np.testing.assert_allclose(made.coef_ / np.linalg.norm(made.coef_), ridge / np.linalg.norm(ridge))


def test_the_chosen_steps_are_repeated_with_all_images():
    X, y = misled(0)
    made = SNdcgRanker(list_size=None).fit(X, y)
    of_all = SNdcgRanker(list_size=None, validation=0).fit(X, y)
    value = 1 - float(SNdcgLoss("sigmoid", 12.0)(torch.tensor(made.predict(X)), torch.tensor(y)))
    assert made.chosen_ > 0
    assert of_all.objective_[made.chosen_] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("rate", [0.01, 0.05])
def test_a_step_goes_along_the_gradient_and_is_a_share_of_theta_long(rate):
    """Without decorrelation, where the first step climbs."""
    X, y = misled(0, 90)
    Z = (X - X.mean(0)) / X.std(0)
    ranker = SNdcgRanker(start="zero", rate=rate, list_size=None, alpha=2.0)
    start, stepped = ranker._ascend(Z, y, 1, np.random.default_rng(0)).weights
    theta = torch.tensor(start, requires_grad=True)
    (-SNdcgLoss("sigmoid", 2.0)(torch.tensor(Z) @ theta, torch.tensor(y))).backward()
    gradient = theta.grad.numpy()
    expected = gradient * rate * np.linalg.norm(start) / np.linalg.norm(gradient)
    np.testing.assert_allclose(stepped - start, expected, rtol=1e-6)


def test_as_printed_theta_0_is_never_the_result():
    """It orders nothing; here no step orders any better, and the first to be tried is taken."""
    X, y = np.array([[-1.0], [1.0], [-1.0], [1.0]]), np.array([0.0, 0.0, 1.0, 1.0])
    assert SNdcgRanker("paper", steps=3, list_size=None, validation=0).fit(X, y).chosen_ == 1


def test_as_printed_refuses_scores_outside_its_domain():
    X, y, _ = drawn()
    with pytest.raises(InvalidInput, match="leave the domain"):
        SNdcgRanker("paper", alpha=50.0, rate=50.0).fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"form": "tanh"},
        {"function": "cubic"},
        {"alpha": 0.0},
        {"rate": -1.0},
        {"steps": -1},
        {"steps": 2.5},
        {"form": "paper", "steps": 0},
        {"start": "random"},
        {"form": "paper", "start": "regression"},
        {"validation": 1.0},
    ],
)
def test_s_ndcg_refuses(options):
    X, y, _ = drawn()
    with pytest.raises(InvalidInput, match=list(options)[-1]):
        SNdcgRanker(**options).fit(X, y)


def test_exponential_does_not_overflow():
    X, y, _ = drawn()
    fitted = SNdcgRanker(function="exponential").fit(X, y)
    assert np.isfinite(fitted.predict(X * 1e6)).all()


def test_images_of_a_patient_are_put_aside_together():
    groups, grades = np.repeat(np.arange(90), 3), np.tile([1.0, 2.0, 3.0], 90)
    aside = hold_out_groups(groups, grades, 1 / 9, np.random.default_rng(0))
    assert aside.sum() == 30
    assert not set(groups[aside]) & set(groups[~aside])
    for of_one_grade in (aside, ~aside):
        one_grade = np.where(of_one_grade, 1.0, grades)
        assert not hold_out_groups(groups, one_grade, 1 / 9, np.random.default_rng(0)).any()
    with pytest.raises(InvalidInput, match="as many groups"):
        SNdcgRanker().fit(np.ones((3, 2)), [1, 2, 3], [1, 2])
    with pytest.raises(InvalidInput, match="groups are all numbers or all texts"):
        SNdcgRanker().fit(np.ones((3, 2)), [1, 2, 3], ["a", "b", None])


def test_long_lists_on_a_grid(monkeypatch):
    random = np.random.default_rng(0)
    values, weights = random.normal(size=700) * 2, random.normal(size=700)
    exact = SmoothSteps(values)
    monkeypatch.setattr(s_ndcg_ranker, "EXACT", 10)
    grid = SmoothSteps(values)
    assert not grid.exact
    np.testing.assert_allclose(grid.ranks(), exact.ranks(), atol=4e-5 * 700)
    np.testing.assert_allclose(grid.slopes(weights), exact.slopes(weights), atol=2e-2)
    alike = SmoothSteps(np.full(700, 3.0))
    np.testing.assert_allclose(alike.ranks(), 0, atol=1e-9)


# RankingSVM


def explicit_pairs(Z, y):
    i, j = np.nonzero(y[:, None] > y[None, :])
    return Z[i] - Z[j]


def svc_of_all_pairs(X, y, C, loss):
    """Weights of scikit-learn's solver, and the differences of all pairs."""
    differences = explicit_pairs((X - X.mean(0)) / X.std(0), y)
    both, signs = np.concatenate([differences, -differences]), np.repeat([1, -1], len(differences))
    svc = LinearSVC(C=C / 2, loss=loss, fit_intercept=False, tol=1e-9, max_iter=1_000_000).fit(both, signs)
    return svc.coef_[0], differences


@pytest.mark.parametrize("C", [1e-4, 0.01, 1.0])
@pytest.mark.parametrize("levels", [2, 4, 37])
def test_ranking_svm_is_linear_svc_on_all_pairs(C, levels):
    X, y, _ = drawn(25 if levels == 37 else 40, levels=levels, noise=1.0)
    made = RankingSVM(C=C, tolerance=1e-10).fit(X, y)
    expected, _ = svc_of_all_pairs(X, y, C, "squared_hinge")
    np.testing.assert_allclose(made.coef_, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("C", [1e-4, 0.01, 1.0])
@pytest.mark.parametrize("levels", [2, 4])
def test_ranking_svm_with_the_papers_hinge(C, levels):
    X, y, _ = drawn(30, levels=levels, noise=1.0)
    made = RankingSVM(C=C, loss="hinge").fit(X, y)
    expected, differences = svc_of_all_pairs(X, y, C, "hinge")

    def objective(w):
        return 0.5 * w @ w + C * np.maximum(0, 1 - differences @ w).sum()

    assert objective(made.coef_) == pytest.approx(objective(expected), rel=1e-4)
    np.testing.assert_allclose(made.coef_, expected, atol=2e-3)
    if C > 1e-4:
        squared = RankingSVM(C=C).fit(X, y)
        assert objective(squared.coef_) > objective(expected) * 1.005


def test_ranking_svm_of_lists_pairs_within_them():
    X, y, _ = drawn(60)
    made = RankingSVM(list_size=20, tolerance=1e-10).fit(X, y)
    Z, lists = (X - X.mean(0)) / X.std(0), assign_lists(60, 20, np.random.default_rng(0))
    differences = np.concatenate([explicit_pairs(Z[rows], y[rows]) for rows in rows_by_list(lists)])
    slack = np.maximum(0, 1 - differences @ made.coef_)
    np.testing.assert_allclose(made.coef_ - 2 * made.C * differences.T @ slack, 0, atol=1e-7)


@pytest.mark.parametrize("C", [0, -1, np.nan, np.inf])
def test_ranking_svm_refuses(C):
    X, y, _ = drawn()
    with pytest.raises(InvalidInput, match="C of ranking-svm"):
        RankingSVM(C=C).fit(X, y)
    for options in ({"tolerance": -1.0}, {"tolerance": np.inf}, {"max_iterations": 0}):
        with pytest.raises(InvalidInput, match="tolerance of ranking-svm is at least 0"):
            RankingSVM(**options).fit(X, y)
    with pytest.raises(InvalidInput, match="loss of ranking-svm is squared-hinge or hinge"):
        RankingSVM(loss="ramp").fit(X, y)


# boosting


def best_threshold(Z, D, i, j):
    """The largest |r| of Freund et al. 2003, with a weight D for every pair (i, j)."""
    best = 0.0
    for feature in range(Z.shape[1]):
        values = np.unique(Z[:, feature])
        for threshold in (values[1:] + values[:-1]) / 2:
            h = (Z[:, feature] > threshold).astype(float)
            best = max(best, abs(D @ (h[i] - h[j])))
    return best


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([None, 10]))
def test_rank_boost_takes_the_best_threshold_of_every_round(seed, size):
    X, y, _ = drawn(30, 3, seed=seed)
    X = np.round(X, -1)  # equal values have no threshold between them
    lists = assign_lists(30, size, np.random.default_rng(0))
    made = RankBoost(rounds=4, list_size=size).fit(X, y)
    Z = (X - made.mean_) / made.scale_
    i, j = np.nonzero((y[:, None] > y) & (lists[:, None] == lists))
    D = np.full(len(i), 1 / len(i))
    for feature, threshold, weight in zip(made.features_, made.thresholds_, made.weights_, strict=True):
        h = (Z[:, feature] > threshold).astype(float)
        r = D @ (h[i] - h[j])
        assert abs(r) == pytest.approx(best_threshold(Z, D, i, j), abs=1e-9)
        assert weight == pytest.approx(0.5 * math.log((1 + r) / (1 - r)), abs=1e-9)
        D = D * np.exp(-weight * (h[i] - h[j]))
        D /= D.sum()


def test_a_perfect_threshold_weighs_much_but_not_infinitely():
    fitted = RankBoost().fit([[0.0], [0.0], [1.0]], [1, 1, 2])
    assert np.isfinite(fitted.weights_).all()
    assert fitted.predict([[1.0]]) > fitted.predict([[0.0]])


def test_ada_rank_starts_with_the_best_feature():
    X, y, _ = drawn(200)
    X[:, 2] = -3 * y + 0.1 * (X[:, 2] - X[:, 2].mean()) / X[:, 2].std()
    made = AdaRank(rounds=1, list_size=20).fit(X, y)
    assert np.flatnonzero(made.coef_).tolist() == [2]
    assert made.coef_[2] < 0
    lists = assign_lists(200, 20, np.random.default_rng(0))
    tau = kendall_tau(-X[:, 2], y, lists).mean()
    assert -made.coef_[2] == pytest.approx(0.5 * math.log((1 + tau) / (1 - tau)))


@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_ada_rank_weighs_lists_as_equation_12(rounds):
    """By the ranks of the sum of all rounds before; each feature is good in one list."""
    random = np.random.default_rng(1)
    X, y = random.normal(size=(100, 6)), random.integers(0, 4, 100).astype(float)
    lists = assign_lists(100, 20, np.random.default_rng(0))
    rows = np.arange(100)
    X[rows, lists] = y + 0.3 * X[rows, lists]
    one, two = (AdaRank(rounds=number, list_size=20).fit(X, y) for number in (rounds, rounds + 1))
    P = np.exp([-kendall_tau(one.predict(X), y, lists)])[0]
    P /= P.sum()
    taus = np.array([[sign * kendall_tau(sign * X[:, f], y, lists) @ P for f in range(6)] for sign in (1,)])
    feature = int(np.argmax(np.abs(taus[0])))
    tau = abs(kendall_tau(X[:, feature], y, lists) @ P)
    difference = np.abs(two.coef_ - one.coef_)
    assert difference[feature] == pytest.approx(0.5 * math.log((1 + tau) / (1 - tau)))
    assert np.count_nonzero(difference) == 1
    assert np.count_nonzero(two.coef_) > 1


@pytest.mark.parametrize("make", [RankBoost, AdaRank])
@pytest.mark.parametrize("rounds", [0, -1, 2.5, True])
def test_boosting_refuses(make, rounds):
    X, y, _ = drawn()
    with pytest.raises(InvalidInput, match="rounds"):
        make(rounds=rounds).fit(X, y)


def test_fewer_images_than_features_grade_as_by_the_whole_covariance(monkeypatch):
    generator = np.random.default_rng(3)
    features = generator.normal(size=(25, 60))
    grades = np.arange(25.0) % 5
    quick = SNdcgRanker().fit(features, grades)

    def whole(Z):
        variances, directions = np.linalg.eigh(Z.T @ Z / len(Z))
        return directions / np.sqrt(np.maximum(variances, 0.0) + s_ndcg_ranker.RIDGE) @ directions.T

    monkeypatch.setattr(s_ndcg_ranker, "_decorrelating", whole)
    slow = SNdcgRanker().fit(features, grades)
    others = generator.normal(size=(9, 60))
    assert quick.chosen_ == slow.chosen_
    assert quick.predict(others) == pytest.approx(slow.predict(others), rel=1e-6, abs=1e-9)


def test_the_share_of_groups_for_validation_is_rounded():
    groups, grades = np.arange(40), np.arange(40) % 4.0
    for share, count in ((1 / 9, 4), (0.19, 8), (0.5, 20)):
        assert hold_out_groups(groups, grades, share, np.random.default_rng(0)).sum() == count
    assert SNdcgRanker().validation == 1 / 9


def test_another_value_of_an_option_gives_another_ranker():
    X, y = misled(0, 150)
    others = {
        SNdcgRanker: {
            "form": "paper", "function": "exponential", "alpha": 2.0, "steps": 1, "rate": 0.03, "list_size": 30,
            "validation": 0.4, "seed": 3, "start": "zero",
        },
        RankingSVM: {"C": 1e-5, "list_size": 20, "loss": "hinge"},
        AdaRank: {"rounds": 2, "list_size": 20},
        RankBoost: {"rounds": 2, "list_size": 20},
    }  # fmt: skip
    for kind, options in others.items():
        plain = kind().fit(X, y)
        for name, value in options.items():
            other = kind(**{name: value}).fit(X, y)
            if kind is SNdcgRanker:  # whose best step may be the start, which is the same
                assert other.objective_ != plain.objective_, name
            else:
                assert not np.allclose(other.predict(X), plain.predict(X), rtol=1e-9), (kind, name)
