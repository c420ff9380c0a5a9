"""Intervals and tests against scipy and published examples."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from cbir.errors import InvalidInput
from cbir.evaluation.experiment import compare_runs
from cbir.evaluation.significance import bootstrap_intervals, fold_means, group_folds, randomisation_test


def test_intervals_are_those_of_scipy():
    values = np.random.default_rng(0).beta(2, 5, (2, 80))
    low, high = bootstrap_intervals(values, seed=1)
    for row in range(2):
        theirs = stats.bootstrap((values[row],), np.mean, method="percentile", n_resamples=10_000, rng=2)
        assert low[row] == pytest.approx(theirs.confidence_interval.low, abs=3e-3)
        assert high[row] == pytest.approx(theirs.confidence_interval.high, abs=3e-3)
        assert low[row] < values[row].mean() < high[row]


def test_intervals_cover_as_often_as_they_say():
    random = np.random.default_rng(0)
    samples = random.normal(0.5, 0.2, (300, 60))
    covered = [
        low[0] <= 0.5 <= high[0]
        for sample in samples
        for low, high in [bootstrap_intervals(sample[None], resamples=400)]
    ]
    assert 0.90 <= np.mean(covered) <= 0.985


def test_one_query_or_equal_values_have_no_width():
    for values in (np.array([[0.3]]), np.full((1, 9), 0.3)):
        low, high = bootstrap_intervals(values)
        assert low[0] == pytest.approx(0.3)
        assert high[0] == pytest.approx(0.3)


def test_statistics_are_repeatable():
    values = np.random.default_rng(0).random((1, 30))
    assert bootstrap_intervals(values, seed=5) == bootstrap_intervals(values, seed=5)
    assert randomisation_test(values - 0.5, seed=5) == randomisation_test(values - 0.5, seed=5)


def test_randomisation_is_the_exact_test_where_that_can_be_counted():
    differences = np.array([[0.3, 0.1, 0.25, -0.05, 0.2, 0.15, 0.1, -0.1, 0.3, 0.05]])
    exact = stats.permutation_test((differences[0],), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert randomisation_test(differences, resamples=40_000)[0] == pytest.approx(exact.pvalue, abs=3e-3)


def test_randomisation_agrees_with_the_t_test_on_many_queries():
    random = np.random.default_rng(3)
    differences = random.normal(0.02, 0.1, (1, 150))
    assert randomisation_test(differences)[0] == pytest.approx(
        stats.ttest_1samp(differences[0], 0).pvalue, abs=0.02
    )


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=30), st.sampled_from([3, 7, 10, 12]))
@example([0, 6, -1, 7, -9, -3, -6, -2, 8, -7, -6, -2, 7, -9, 6, 5, -2, -9, -1, 4, 6, -6, 3, 1, 6, 4], 12)
def test_rounding_makes_no_equal_means_differ(integers, scale):
    differences = np.array([integers], float)
    p, of_integers = (
        randomisation_test(values, resamples=300) for values in (differences / scale, differences)
    )
    assert p == of_integers


def test_queries_without_a_value_are_refused():
    with pytest.raises(InvalidInput, match="2 queries have no value"):
        randomisation_test(np.array([[0.1, np.nan, 0.2], [0.1, 0.2, np.nan]]))


@pytest.mark.parametrize(
    ("test", "options", "message"),
    [
        (bootstrap_intervals, {"share": 95}, "from 0 to 1, not 95"),
        (bootstrap_intervals, {"share": -0.1}, "from 0 to 1, not -0.1"),
        (bootstrap_intervals, {"share": np.nan}, "from 0 to 1, not nan"),
        (bootstrap_intervals, {"values": np.empty((2, 0))}, "there are none"),
        (bootstrap_intervals, {"resamples": 0}, "resamples: a whole number, at least 1, not 0"),
        (randomisation_test, {"resamples": -1}, "resamples: a whole number, at least 1, not -1"),
        (randomisation_test, {"resamples": 2.5}, "resamples: a whole number, at least 1, not 2.5"),
        (bootstrap_intervals, {"values": np.ones(3)}, r"not the shape \(3,\)"),
        (randomisation_test, {"values": np.ones(3)}, r"not the shape \(3,\)"),
    ],
)
def test_wrong_arguments_are_refused(test, options, message):
    with pytest.raises(InvalidInput, match=message):
        test(
            options.get("values", np.ones((1, 3))),
            **{key: options[key] for key in options if key != "values"},
        )


def test_no_difference_is_no_evidence():
    assert randomisation_test(np.zeros((1, 20)))[0] == 1.0
    assert randomisation_test(np.array([[0.4]]))[0] == 1.0
    assert randomisation_test(np.full((1, 40), 0.1))[0] == pytest.approx(1 / 10_001)


@pytest.mark.slow  # imports statsmodels
def test_runs_are_corrected_for_each_other_metric_by_metric():
    random = np.random.default_rng(0)
    values = random.random((4, 2, 40)) + np.array([0.0, 0.1, 0.2, 0.05])[:, None, None]
    first, *others = compare_runs(values, seed=3)
    assert first is None
    for m in range(2):
        p = np.array([other.p[m] for other in others])
        order = np.argsort(p)
        # Step-down: 3 times the smallest, twice the next, and never below the one before
        expected = np.minimum(np.maximum.accumulate(p[order] * [3, 2, 1]), 1.0)
        assert [others[run].p_holm[m] for run in order] == pytest.approx(expected.tolist())
        assert others[0].mean[m] == pytest.approx((values[1] - values[0])[m].mean())
    assert compare_runs(values[:1], seed=3) == [None]


def test_an_interval_has_its_share_of_the_means():
    """Close to normal: the half width is 1.96 standard errors at 95 %, and 0.674 at 50 %."""
    values = np.random.default_rng(0).random((1, 400))
    error = values.std() / 20
    for share, width in ((0.95, 1.96), (0.5, 0.674)):
        low, high = bootstrap_intervals(values, share=share)
        assert (high[0] - low[0]) / 2 == pytest.approx(width * error, rel=0.05)


def test_the_seed_decides_what_is_drawn():
    values = np.random.default_rng(0).random((1, 30))
    assert bootstrap_intervals(values, seed=5)[0] != bootstrap_intervals(values, seed=6)[0]
    assert randomisation_test(values - 0.45, seed=5) != randomisation_test(values - 0.45, seed=6)
    tests = [group_folds(np.arange(60.0) % 3, np.arange(60), 3, seed)[0][1].tolist() for seed in (0, 1)]
    assert tests[0] != tests[1]


def test_the_observed_signs_are_one_of_the_draws():
    """p = (1 + draws as extreme) / (1 + draws): never 0 (Smucker et al. 2007)."""
    assert randomisation_test(np.full((1, 60), 0.1), resamples=99)[0] == 0.01


def test_means_of_folds_are_of_their_own_queries():
    values, folds = np.arange(12.0).reshape(1, 2, 6), np.array([2, 0, 1, 0, 2, 2])
    np.testing.assert_array_equal(fold_means(values, folds), [[[2, 2, 3], [8, 8, 9]]])
