"""Selection above negatives: p-values, the procedure, and what it promises, by simulation."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from cbir.errors import InvalidInput
from cbir.evaluation.significance import (
    conformal_p_values,
    least_negatives,
    least_selected,
    most_above,
    select_above_negatives,
)

DRAWS = 1000


def test_p_values_of_an_example_with_ties():
    p = conformal_p_values(np.array([5.0, 3.0, 2.0, -1.0]), np.array([0.0, 3.0, 1.0, 3.0]))
    assert p.tolist() == [1 / 5, 3 / 5, 3 / 5, 1.0]


@pytest.mark.parametrize("fdr", [0.05, 0.2, 0.5])
def test_selected_as_by_adjusted_p_values(fdr):
    random = np.random.default_rng(0)
    for images in (1, 2, 40):
        scores, negatives = random.normal(size=images) + 1.5, random.normal(size=100)
        adjusted = false_discovery_control(conformal_p_values(scores, negatives))
        assert (select_above_negatives(scores, negatives, fdr).selected == (adjusted <= fdr + 1e-12)).all()


def draw(random, negatives=200, images=300, positives=60):
    shifts = np.arange(images) < positives
    return random.normal(size=negatives), random.normal(size=images) + 2.5 * shifts, ~shifts


@pytest.mark.parametrize("fdr", [0.1, 0.3])
def test_what_is_promised_by_simulation(fdr):
    random = np.random.default_rng(1)
    shares, holds, found = [], [], []
    for _ in range(DRAWS):
        negatives, scores, is_negative = draw(random)
        selected, most_false = select_above_negatives(scores, negatives, fdr)
        false = int((selected & is_negative).sum())
        shares.append(false / max(1, selected.sum()))
        holds.append(false <= most_false)
        found.append(selected.sum())
    assert 0.6 * fdr < np.mean(shares) <= fdr  # the share of negatives is 0.8
    assert np.mean(holds) >= 0.9
    assert np.mean(found) > 10


def test_no_more_are_false_than_are_selected():
    """One of 500 scores is above 1000 negatives; as many as two negatives might be."""
    scores = np.append(np.full(499, -1.0), 2000.0)
    selected, most_false = select_above_negatives(scores, np.arange(1000.0), 0.5)
    assert np.flatnonzero(selected).tolist() == [499]
    assert most_above(1, 1000, 500) == 2
    assert most_false == 1


def test_the_bound_holds_at_all_places_together():
    """Count all orders of 5 calibrating and 4 new negatives."""
    exceeded, orders = 0, list(combinations(range(9), 5))
    for places in orders:  # of the calibrating, highest first
        above = [place - k for k, place in enumerate(places)]
        exceeded += any(count > most_above(k, 5, 4) for k, count in enumerate(above, 1))
    assert exceeded / len(orders) <= 0.1
    assert most_above(1, 5, 4) == 2  # three are above all with 4/9 * 3/8 * 2/7 < 0.05, two with 4/9 * 3/8
    assert most_above(6, 5, 4) == 4


def test_each_place_has_its_share_of_the_error():
    """1 / (k (k + 1)) of it for the k-th highest of 6 calibrating: all orders with 9 new negatives, counted."""
    orders = list(combinations(range(15), 6))
    for k in range(1, 7):
        above = np.array([places[k - 1] - (k - 1) for places in orders])
        allowed = 0.1 / (k * (k + 1)) * len(orders)
        bound = next(most for most in range(10) if (above > most).sum() <= allowed)
        assert most_above(k, 6, 9) == bound


def test_none_alike_and_empty():
    negatives = np.zeros(19)
    selected, most_false = select_above_negatives(np.zeros(7), negatives, 0.5)
    assert not selected.any()
    assert most_false == 0
    assert select_above_negatives(np.zeros(0), negatives, 0.5).selected.shape == (0,)
    assert select_above_negatives(np.array([1.0]), negatives, 0.05).selected.tolist() == [True]
    assert select_above_negatives(np.array([1.0]), negatives, 0.049).selected.tolist() == [False]


def test_least_selected():
    negatives = np.arange(49.0)
    need = least_selected(200, 49, 0.1)
    assert need == 40
    for above, expected in ((need - 1, 0), (need, need)):
        scores = np.where(np.arange(200) < above, 100.0, -1.0)
        assert select_above_negatives(scores, negatives, 0.1).selected.sum() == expected


@pytest.mark.parametrize("fdr", [0.05, 0.1, 0.2, 0.3])
def test_p_values_that_equal_their_thresholds_pass(fdr):
    for images in range(1, 60):
        for negatives in (9, 19, 99):
            need = least_selected(images, negatives, fdr)
            assert (need > images) == (negatives < least_negatives(fdr))
            for above in {min(need, images), need - 1} - {0, images + 1}:
                scores = np.where(np.arange(images) < above, 1e3, -1.0)
                found = select_above_negatives(scores, np.arange(float(negatives)), fdr).selected.sum()
                assert found == (above if above >= need else 0)


def test_least_negatives():
    assert [least_negatives(fdr) for fdr in (0.5, 0.3, 0.1, 0.05, 0.01)] == [1, 3, 9, 19, 99]


@pytest.mark.parametrize("fdr", [0.0, 1.0, -1.0, float("nan")])
def test_rates_out_of_range(fdr):
    with pytest.raises(InvalidInput, match="above 0 and below 1"):
        select_above_negatives(np.zeros(3), np.zeros(3), fdr)


def test_without_negatives():
    with pytest.raises(InvalidInput, match="held-out negatives"):
        select_above_negatives(np.zeros(3), np.zeros(0), 0.1)


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_score_that_is_nan_selects_nothing(wrong):
    scores = [np.array([1.0, 2.0]), np.arange(30.0)]
    scores[wrong][1] = np.nan
    with pytest.raises(InvalidInput, match="a score is NaN"):
        select_above_negatives(*scores, 0.1)
