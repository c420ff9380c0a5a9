"""Thresholds on the scores of left-out images."""

import itertools

import numpy as np
import pytest

from cbir.evaluation.significance import group_folds
from cbir.learn import grading
from cbir.learn.grading.grade_scale import (
    GradeScale,
    expected_grade_scale,
    fit_grade_scale,
    half_width,
    measure_agreement,
    nearest_level,
    quadratic_kappa,
)
from cbir.learn.grading.grader_evaluation import evaluate_grader
from cbir.learn.grading.interpolation import GradeInterpolator, left_out_scores
from cbir.learn.grading.stored_grading import read_stored_grading, store_grading
from tests.cbir.learn.grading.cases import drawn


def skewed(count=200, seed=0):
    random = np.random.default_rng(seed)
    grades = np.repeat([0.0, 1.0, 2.0], [count * 6 // 10, count * 3 // 10, count // 10])
    return grades + random.normal(size=len(grades)), grades


def test_thresholds_are_close_to_the_best_pair():
    scores, grades = skewed()
    scale = fit_grade_scale(scores, grades)
    levels = np.arange(3.0)
    best = max(
        quadratic_kappa(levels[np.searchsorted(pair, scores, "right")], grades)
        for pair in itertools.combinations(np.quantile(scores, np.linspace(0, 1, 60)[1:-1]), 2)
    )
    found = quadratic_kappa(nearest_level(scale.grades(scores), levels), grades)
    assert found > best - 0.01
    plain = quadratic_kappa(nearest_level(scores, levels), grades)
    assert found >= plain


def test_rounded_grades_are_those_between_the_thresholds():
    scores, grades = skewed()
    scale = fit_grade_scale(scores, grades)
    thresholds = scale.scores[1:-1]
    np.testing.assert_array_equal(
        nearest_level(scale.grades(scores), np.arange(3.0)), np.searchsorted(thresholds, scores, "right")
    )
    assert (np.diff(scale.grades(np.sort(scores))) >= 0).all()
    assert scale.grades(np.array([-1e9, 1e9])).tolist() == [0, 2]
    np.testing.assert_allclose(scale.grades(thresholds), [0.5, 1.5])
    low, high = thresholds
    between = scale.grades(low + (high - low) * np.array([0.12, 0.5, 0.88, 0.95]))
    np.testing.assert_allclose(between, [1, 1, 1, 1.25])


def test_levels_need_not_be_whole_numbers():
    scores, grades = skewed()
    scale = fit_grade_scale(5 * scores - 2, 10 * grades + 3)
    assert scale.levels.tolist() == [3, 13, 23]
    np.testing.assert_allclose(scale.grades(scale.scores), [3, 8, 18, 23])
    np.testing.assert_allclose(scale.scores, 5 * fit_grade_scale(scores, grades).scores - 2)


@pytest.mark.parametrize(
    ("scores", "grades"),
    [
        (np.arange(30.0), np.arange(30) % 2),  # few images
        (np.arange(90.0), np.arange(90.0)),  # decimal grades
        (np.arange(90.0), np.repeat([0, 1], [88, 2])),  # a rare grade
        (np.zeros(90), np.arange(90) % 3),  # no difference
        (np.arange(90.0), np.zeros(90)),
    ],
)
def test_nothing_to_choose_from(scores, grades):
    assert fit_grade_scale(scores, grades.astype(float)) is None


@pytest.mark.parametrize(("rare", "is_fitted"), [(4, False), (5, True)])
def test_five_images_of_a_grade_are_enough(rare, is_fitted):
    scale = fit_grade_scale(np.arange(90.0), np.repeat([0.0, 1.0], [90 - rare, rare]))
    assert (scale is not None) == is_fitted


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_intervals_cover_their_share_in_each_region(coverage):
    """Grades of the lowest images are exact, others are noisy: one width for all would fail both."""
    shares = np.zeros((20, 3))
    for seed in range(20):
        random = np.random.default_rng(seed)
        scores = random.uniform(0, 3, 2000)
        grades = np.where(scores < 1, 0.0, np.rint(scores - 0.5 + random.normal(size=2000)).clip(0, 2))
        scale = fit_grade_scale(scores[:1000], grades[:1000])
        scale = scale.with_intervals(scores[:1000], grades[:1000], coverage)
        new, truth = scores[1000:], grades[1000:]
        covered = np.abs(scale.grades(new) - truth) <= scale.errors(new)
        rounded = nearest_level(scale.grades(new), np.arange(3.0))
        shares[seed] = [covered[rounded == level].mean() for level in range(3)]
    assert (shares.mean(axis=0) > coverage - 0.03).all()
    widths = scale.errors(np.array([0.1, 1.5, 2.9]))
    assert widths[0] < widths[1:].min()


def test_a_region_with_few_images_has_the_width_of_all():
    scores, grades = skewed(60)
    scale = fit_grade_scale(scores, grades)
    wide = scale.with_intervals(scores, grades, 0.97)
    errors = np.sort(np.abs(scale.grades(scores) - grades))
    assert wide.half_widths[-1] == errors[int(np.ceil(61 * 0.97)) - 1]
    assert np.isnan(scale.errors(scores)).all()
    assert scale.with_intervals(scores, grades, 0.99).half_widths.tolist() == [2, 2, 2], (
        "all grades there are"
    )


def test_left_out_scores_know_nothing_of_their_patient():
    """With random grades and more values than images, fitted scores follow the grades and left-out ones do not."""
    random = np.random.default_rng(0)
    X, y = np.repeat(random.normal(size=(60, 200)), 2, axis=0), np.repeat(np.arange(60.0) % 3, 2)
    patients = np.repeat(np.arange(60), 2)
    ranker = grading.make_ranker("ranking-svm", C=1.0).fit(X, y, patients)
    assert np.corrcoef(ranker.predict(X), y)[0, 1] > 0.9
    scores = left_out_scores(ranker, X, y, patients)
    assert abs(np.corrcoef(scores, y)[0, 1]) < 0.4
    assert left_out_scores(ranker, X, y, patients % 4) is None


def test_thresholds_where_grades_are_rare():
    X, y, patients = drawn(400, 40, noise=3.0)
    y = np.array([0.0, 0, 0, 1, 2])[y.astype(int)]
    splits = group_folds(y, patients, 4)
    by_smoothing = {
        smoothing: evaluate_grader("regression", X, y, splits, patients, smoothing=smoothing).overall
        for smoothing in ("auto", "thresholds")
    }
    assert by_smoothing["thresholds"]["kappa"] > by_smoothing["auto"]["kappa"] + 0.02


def test_stored_and_used():
    X, y, patients = drawn(120, noise=2.0)
    grader = GradeInterpolator(grading.make_ranker("ranking-svm", kernel="auto"), "thresholds")
    grader.fit(X, y, patients)
    stored = store_grading(
        grader, profile_hash="0" * 16, column="grade", where=(), images=120, patients=60, fitted="now"
    )
    back = read_stored_grading(stored.model_dump_json(), "grade")
    scores = back.fitted_ranker().predict(X)
    np.testing.assert_allclose(scores, grader.ranker_.predict(X), atol=1e-9)
    np.testing.assert_allclose(back.grade_scale().grades(scores), grader.predict(X), atol=1e-9)
    lows = [case.low for case in grader.locate(X)]
    expected = np.maximum(grader.predict(X) - back.grade_scale().errors(scores), y.min())
    np.testing.assert_allclose(lows, expected, atol=1e-9)
    assert [case.grade for case in grader.locate(X[:3])] == grader.predict(X[:3]).tolist()


def test_without_thresholds_the_neighbours_decide():
    X, y, _ = drawn(30)
    plain, asked = (
        GradeInterpolator(grading.make_ranker("ranking-svm"), smoothing).fit(X, y)
        for smoothing in ("auto", "thresholds")
    )
    assert asked.scale_ is None
    np.testing.assert_array_equal(asked.predict(X), plain.predict(X))
    assert asked.error_ == plain.error_


def test_grades_follow_their_unit_and_their_distances():
    """At every score, not only at the thresholds; the grade is held four fifths of the way, however wide it is."""
    scores, grades = skewed()
    places = np.linspace(scores.min() - 1, scores.max() + 1, 500)
    plain, wide = fit_grade_scale(scores, grades), fit_grade_scale(scores, 10 * grades + 3)
    np.testing.assert_allclose(wide.grades(places), 10 * plain.grades(places) + 3, atol=1e-9)
    uneven = GradeScale(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 2.0, 10.0]))
    found = uneven.grades(np.array([0.5, 0.8, 0.9, 1.0, 1.02, 1.6, 1.95, 2.0, 2.1, 2.9]))
    # the limits between grades are 1 and 6: 2 is held from 1.2 to 5.2
    np.testing.assert_allclose(found, [0, 0, 0.5, 1, 1.5, 2, 4.75, 6, 8, 10], atol=1e-9)


def test_an_error_of_exactly_one_half_or_one_is_within_it():
    """And so is one that is larger by rounding."""
    predicted = np.array([0.2, 0.5, 1.0, 1.1]) + 2e-16
    found = measure_agreement(predicted, np.zeros(4), np.arange(3.0), 1.0)
    assert (found["within_half"], found["within_one"]) == (0.5, 0.75)


@pytest.mark.parametrize("name", ["ranking-svm", "rankboost"])
def test_left_out_scores_are_on_the_scale_of_the_grader_of_all(name):
    """By the mean and the deviation on the training images of each fold."""
    X, y, patients = drawn(90, noise=1.0)
    ranker = grading.make_ranker(name).fit(X, y, patients)
    expected = np.empty(90)
    for train, test in group_folds(y, patients, 5, 3):
        partial = grading.make_ranker(name).fit(X[train], y[train], patients[train])
        known = partial.predict(X[train])
        expected[test] = (partial.predict(X[test]) - known.mean()) / known.std()
    known = ranker.predict(X)
    found = left_out_scores(ranker, X, y, patients, 3)
    np.testing.assert_allclose(found, known.mean() + expected * known.std())


def test_thresholds_that_none_betters_stay_where_as_many_images_as_have_a_grade_are_below():
    """Every place between the scores of two grades would be as good."""
    grades = np.repeat([0.0, 1.0, 2.0], [20, 12, 8])
    scores = np.arange(40) + 10 * grades
    found = fit_grade_scale(scores, grades).scores[1:-1]
    np.testing.assert_allclose(found, np.quantile(scores, [0.5, 0.8]))


def test_scores_typical_of_the_outer_grades_are_the_medians_beyond_the_outer_thresholds():
    scores, grades = skewed()
    scores = np.exp(scores)  # the mean is far from the median
    lowest, *thresholds, highest = fit_grade_scale(scores, grades).scores
    below, above = np.sort(scores[scores < thresholds[0]]), np.sort(scores[scores >= thresholds[-1]])
    assert lowest == (below[(len(below) - 1) // 2] + below[len(below) // 2]) / 2
    assert highest == (above[(len(above) - 1) // 2] + above[len(above) // 2]) / 2
    assert highest < above.mean() - 1


@pytest.mark.parametrize("count", [0, 1, 2, 9, 24, 99])
def test_half_a_width_is_the_conformal_quantile(count):
    errors = np.random.default_rng(count).permutation(count) + 1.0
    for percent in range(101):
        rank = max(-(-(count + 1) * percent // 100), 1)  # rounded up
        assert half_width(errors, percent / 100) == (rank if rank <= count else np.inf)


def test_equal_scores_are_not_stretched():
    grades, levels = np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), np.array([1.0, 2.0, 3.0])
    for score in (0.1, 0.25):
        scale = expected_grade_scale(np.full(6, score), grades, levels)
        assert scale.scores == pytest.approx(score + np.array([1.0, 1.5, 2.5, 3.0]) - 2.0)
