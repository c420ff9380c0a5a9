"""How well scores order images, against slow forms and by hand."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbir.errors import InvalidInput
from service.features.annotate.active.severity_grades import (
    classified,
    compare_grades,
    cost,
    fit_grade_thresholds,
    proportions,
    relative_accuracy,
    uncertainty_by_grade,
)


def slow(scores, grades, one, other):
    pairs = [(a, b) for a in scores[grades == one] for b in scores[grades == other]]
    return np.mean([1.0 if b > a else 0.5 if b == a else 0.0 for a, b in pairs])


@given(st.integers(0, 1000), st.integers(2, 5))
@settings(max_examples=30, deadline=None)
def test_accuracy_is_the_share_of_right_pairs_of_balanced_grades(seed, levels):
    random = np.random.default_rng(seed)
    grades = np.concatenate([np.arange(levels), random.integers(0, levels, 20)]).astype(float)
    scores = np.round(random.normal(grades, 1.5), 0)
    found = relative_accuracy(scores, grades)
    assert found["overall"] == pytest.approx(
        np.mean([slow(scores, grades, *pair) for pair in combinations(range(levels), 2)])
    )
    for low in range(levels - 1):
        assert found["each"][f"{low}-{low + 1}"] == pytest.approx(slow(scores, grades, low, low + 1))
    assert found["neighbouring"] == pytest.approx(np.mean(list(found["each"].values())))


def test_accuracy_of_perfect_reversed_and_constant_scores():
    grades = np.array([0, 1, 1, 2, 4.0])
    assert relative_accuracy(grades * 3 - 7, grades)["overall"] == 1
    assert relative_accuracy(-grades, grades)["neighbouring"] == 0
    assert relative_accuracy(np.zeros(5), grades)["overall"] == 0.5
    assert list(relative_accuracy(grades, grades)["each"]) == ["0-1", "1-2", "2-4"]


def test_accuracy_of_one_grade_is_not_defined():
    found = relative_accuracy(np.arange(3.0), np.ones(3))
    assert np.isnan(found["overall"])
    assert found["each"] == {}


def test_proportions_count_each_image_once():
    grades = np.array([0, 0, 0, 1, 2.0])
    assert proportions(grades, np.array([[0, 3], [0, 1], [3, 1]])) == {"0": 2 / 3, "1": 1 / 3, "2": 0.0}
    assert proportions(grades, np.array([[0, 3], [0, 1], [4, 0]])) == {"0": 0.5, "1": 0.25, "2": 0.25}
    assert proportions(grades, np.empty((0, 2), int)) == {"0": 0.0, "1": 0.0, "2": 0.0}


def test_uncertainty_of_each_grade():
    found = uncertainty_by_grade(np.array([1.0, 3.0, 5.0, 9.0]), np.array([0, 0, 0, 2]))
    assert found["0"][2] == 3.0
    assert found["2"] == [9.0] * 5
    every = uncertainty_by_grade(np.random.default_rng(0).permutation(101) / 4, np.ones(101))
    assert every["1"] == pytest.approx([5 / 4, 25 / 4, 50 / 4, 75 / 4, 95 / 4])


def test_classified_by_hand():
    found = classified(
        np.array([-3.0, 0.4, 0.6, 2.2, 9.0]), np.array([0, 1, 1, 2, 2.0]), np.array([0.0, 1, 2])
    )
    # given 0 0 1 2 2: precision 1/2, 1, 1; recall 1, 1/2, 1
    assert found["precision"] == pytest.approx(2.5 / 3)
    assert found["recall"] == pytest.approx(2.5 / 3)
    assert found["f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert found["accuracy"] == 0.8


def test_a_grade_that_is_never_given_counts_as_nothing():
    found = classified(np.zeros(4), np.array([0, 0, 0, 1.0]), np.array([0.0, 1.0]))
    assert found["recall"] == 0.5
    assert found["precision"] == pytest.approx(0.375)


def test_thresholds_restore_grades_that_are_drawn_to_the_mean():
    random = np.random.default_rng(0)
    grades = random.choice(4, 600, p=[0.5, 0.2, 0.2, 0.1]).astype(float)
    drawn_in = grades.mean() + 0.4 * (grades - grades.mean()) + random.normal(0, 0.12, 600)
    known = np.where(np.arange(600) < 300, grades, np.nan)
    thresholds = fit_grade_thresholds(drawn_in.astype(np.float32), known)
    assert thresholds is not None
    by_thresholds = compare_grades(thresholds(drawn_in[300:].astype(np.float32)), grades[300:])
    rounded = classified(drawn_in[300:], grades[300:], np.arange(4.0))
    assert by_thresholds["accuracy"] > 0.85 > 0.7 > rounded["accuracy"]
    assert set(thresholds(np.array([-9.0, 9.0]))) == {0.0, 3.0}


@pytest.mark.parametrize("grades", [[np.nan] * 3, [2.0, np.nan, 2.0], np.arange(51.0)])
def test_thresholds_need_two_grades_and_at_most_50(grades):
    assert fit_grade_thresholds(np.arange(float(len(grades))), np.array(grades)) is None


def test_cost_is_what_the_paper_counts():
    assert cost(4106, 2475) == 53_606  # Table 2
    assert cost(0, 8214) == 164_280


@pytest.mark.parametrize("scores", [[1.0, 2.0], [1.0, 2.0, np.nan], [[1.0, 2.0, 3.0]]])
def test_scores_that_do_not_fit_are_refused(scores):
    with pytest.raises(InvalidInput):
        relative_accuracy(np.array(scores), np.array([0.0, 1.0, 2.0]))
    with pytest.raises(InvalidInput):
        relative_accuracy(np.empty(0), np.empty(0))
