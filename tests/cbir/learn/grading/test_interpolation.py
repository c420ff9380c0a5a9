"""Grades read between neighbours, their edges, and the interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from cbir.errors import InvalidInput
from cbir.learn.grading import RankBoost, RankingSVM
from cbir.learn.grading.interpolation import GradedList, GradeInterpolator, locate_scores
from tests.cbir.learn.grading.cases import drawn

LIST = GradedList(np.array([3.0, 1.0, 2.0, 2.0]), np.array([5.0, 1.0, 2.0, 4.0]))


def equation_10(s, s_above, g_above, s_below, g_below):
    """As printed; i - 1 is the neighbour above in the list, i + 1 the one below."""
    if g_above == g_below:
        return g_below
    if g_above > g_below:
        return g_below + (s - s_below) / (s_above - s_below) * (g_above - g_below)
    return g_above + (s_above - s) / (s_above - s_below) * (g_below - g_above)


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(0, 5)), min_size=1), st.floats(-120, 120))
def test_equation_10_and_its_edges(images, s):
    scores, grades = (np.array(part, float) for part in zip(*images, strict=True))
    (found,) = GradedList(scores, grades).grades(np.array([s]))
    below, above = scores[scores <= s], scores[scores >= s]
    at = [
        grades[scores == place].mean()
        for place in (below.max(initial=-1e9), above.min(initial=1e9))
        if abs(place) < 1e9
    ]
    if len(at) < 2 or below.max() == above.min():
        expected = at[0]
    else:
        expected = equation_10(s, above.min(), at[1], below.max(), at[0])
    assert found == pytest.approx(expected)


def test_ends_and_ties():
    np.testing.assert_allclose(LIST.grades(np.array([0.0, 1.0, 1.5, 2.0, 2.5, 9.0])), [1, 1, 2, 3, 4, 5])


def test_neighbours():
    below, above = LIST.neighbours(np.array([0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 9.0]))
    assert below.tolist() == [-1, 1, 1, 3, 3, 0, 0]
    assert above.tolist() == [1, 2, 2, 0, 0, -1, -1]


def test_the_neighbours_of_a_placement_may_be_the_first_image():
    placed = locate_scores(LIST, np.array([0.0, 2.5, 3.0, 9.0]), None, (1.0, 5.0))
    assert [(case.lighter, case.severer) for case in placed] == [(None, 1), (3, 0), (0, None), (0, None)]
    assert [case.grade for case in placed] == [1, 4, 5, 5]
    assert np.isnan([case.low for case in placed]).all()


def test_of_equal_scores_the_lighter_image_comes_first():
    """Whatever the order of the images, so that the running median does not depend on it either."""
    scores, grades = np.repeat([1.0, 2.0, 3.0], 5), np.tile([4.0, 0.0, 3.0, 1.0, 2.0], 3)
    for seed in range(3):
        shuffled = np.random.default_rng(seed).permutation(15)
        listed = GradedList(scores[shuffled], grades[shuffled], 3)
        assert grades[shuffled][listed.order].tolist() == [0, 1, 2, 3, 4] * 3
        np.testing.assert_array_equal(
            listed.grades(np.arange(5.0)), GradedList(scores, grades, 3).grades(np.arange(5.0))
        )


def test_smoothing_is_the_running_median():
    scores, grades = np.arange(9.0), np.array([1.0, 1, 5, 2, 1, 3, 4, 1, 4])
    smoothed = GradedList(scores, grades, 3).grades(scores)
    np.testing.assert_allclose(smoothed[1:-1], [np.median(grades[i - 1 : i + 2]) for i in range(1, 8)])
    wide = GradedList(scores, grades, 7).grades(scores)
    mirrored = np.concatenate([grades[2::-1], grades, grades[:-4:-1]])  # the ends of the list
    np.testing.assert_allclose(wide, [np.median(mirrored[i : i + 7]) for i in range(9)])
    shuffled = np.random.default_rng(0).permutation(9)
    again = GradedList(scores[shuffled], grades[shuffled], 3).grades(scores)
    np.testing.assert_array_equal(again, smoothed)
    assert GradedList(scores[:1], grades[:1], 99).grades(scores).tolist() == [1.0] * 9


@pytest.mark.parametrize("smoothing", [0, 2, -1, 1.0, True, "some"])
def test_refuses_a_smoothing(smoothing):
    with pytest.raises(InvalidInput, match="smoothing"):
        GradedList(np.arange(3.0), np.arange(3.0), smoothing)


def test_conventions():
    X, y, patients = drawn()
    made = GradeInterpolator(RankingSVM())
    with pytest.raises(NotFittedError):
        made.predict(X)
    assert made.fit(X, y, patients) is made
    assert not hasattr(made.ranker, "coef_")
    again = clone(made).fit(X, y, patients)
    np.testing.assert_array_equal(again.predict(X), made.predict(X))
    assert again.error_ == made.error_
    assert made.score(X, y) == 1.0
    assert GradeInterpolator(coverage=None).fit(X, y).score(X, y) > 0.9


def test_an_error_of_exactly_one_is_within_one():
    X, y = np.arange(6.0)[:, None], np.arange(6.0)
    made = GradeInterpolator(RankingSVM(), coverage=None).fit(X, y)
    np.testing.assert_array_equal(made.predict(X), y)
    assert made.score(X, y + 1) == made.score(X, y - 1) == 1.0
    assert made.score(X, y + 1.01) == 0.0
    assert made.score(X, y + np.array([0, 0, 0, 1, -2, 2])) == 4 / 6


def test_a_new_case_is_placed_between_its_neighbours():
    X, y, patients = drawn(300)
    shown = []
    made = GradeInterpolator(RankingSVM()).fit(
        X[:200], y[:200], patients[:200], lambda stage, done, total: shown.append((done, total))
    )
    assert shown == [(fold, 5) for fold in range(5)]
    scores = made.ranker_.predict(X[:200])
    for case, grade in zip(made.locate(X[200:]), made.predict(X[200:]), strict=True):
        assert case.grade == grade
        assert case.low <= grade <= case.high
        assert case.low >= 1
        assert case.high <= 4
        if case.lighter is not None and case.severer is not None:
            assert scores[case.lighter] <= case.score < scores[case.severer]
            assert not ((scores > scores[case.lighter]) & (scores < scores[case.severer])).any()
            own = sorted([y[case.lighter], y[case.severer]])
            assert own[0] - 1e-9 <= grade <= own[1] + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("ranker", [RankingSVM(), RankBoost()])
def test_the_interval_covers_what_it_promises(coverage, ranker):
    """Over 20 draws of 150 graded and 300 new cases, with decimal grades: errors of whole ones come in steps."""
    shares = []
    for seed in range(20):
        X, y, patients = drawn(450, noise=1.5, seed=seed)
        y = y + np.random.default_rng(seed).uniform(-0.5, 0.5, len(y))
        made = GradeInterpolator(ranker, smoothing=9, coverage=coverage).fit(X[:150], y[:150], patients[:150])
        shares += [
            case.low <= grade <= case.high for case, grade in zip(made.locate(X[150:]), y[150:], strict=True)
        ]
    assert np.mean(shares) == pytest.approx(coverage, abs=0.04)


def test_a_patients_images_do_not_vouch_for_each_other():
    """Doubled images would be graded by their own copies: their errors would seem to be nothing."""
    X, y, _ = drawn(100, noise=3)
    doubled, grades, patients = np.repeat(X, 2, axis=0), np.repeat(y, 2), np.repeat(np.arange(100), 2)
    assert GradeInterpolator(RankingSVM()).fit(doubled, grades, patients).error_ > 0.9


def test_too_few_cases_to_tell():
    X, y, _ = drawn(8)
    assert GradeInterpolator(RankingSVM()).fit(X, y).error_ == y.max() - y.min()
    assert GradeInterpolator(RankingSVM()).fit(X, y, np.zeros(8)).error_ == y.max() - y.min()


@pytest.mark.parametrize("coverage", [0.0, 1.0, 2.0])
def test_refuses_a_coverage(coverage):
    X, y, _ = drawn()
    with pytest.raises(InvalidInput, match="coverage"):
        GradeInterpolator(coverage=coverage).fit(X, y)


def test_automatic_smoothing_is_a_sixteenth_of_the_list():
    grades = np.random.default_rng(0).integers(0, 5, 170).astype(float)
    scores = np.arange(170.0)
    for count, width in ((31, 1), (48, 3), (160, 11), (170, 11)):
        automatic = GradedList(scores[:count], grades[:count], "auto").grades(scores[:count])
        np.testing.assert_array_equal(
            automatic, GradedList(scores[:count], grades[:count], width).grades(scores[:count])
        )
