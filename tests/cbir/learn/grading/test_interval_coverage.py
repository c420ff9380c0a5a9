"""Share of left-out grades that intervals cover."""

import numpy as np
import pytest

from cbir.evaluation.significance import group_folds
from cbir.learn import grading
from cbir.learn.grading.grader_evaluation import measure_interval_coverage
from cbir.learn.grading.grading_state import fit_training_range
from cbir.learn.grading.interpolation import GradeInterpolator
from tests.cbir.learn.grading.cases import drawn


def measured(X, y, splits, patients, **options):
    ranker = grading.make_ranker(options.pop("name", "ranking-svm"))
    return measure_interval_coverage(ranker, X, y, splits, patients, "thresholds", 0.8)


def test_is_counted_over_the_left_out_images():
    X, y, patients = drawn(300, noise=2.0)
    train, test = group_folds(y, patients, 3)[0]
    found = measured(X, y, [(train, test)], patients)
    grader = GradeInterpolator(grading.make_ranker("ranking-svm"), "thresholds", 0.8)
    cases = grader.fit(X[train], y[train], patients[train]).locate(X[test])
    hits = [case.low <= grade <= case.high for case, grade in zip(cases, y[test], strict=True)]
    shown = np.array([np.floor(case.grade + 0.5) for case in cases])
    assert found["covered"] == pytest.approx(np.mean(hits))
    assert found["width"] == pytest.approx(np.mean([case.high - case.low for case in cases]))
    for region in found["regions"]:
        rows = np.flatnonzero(shown == region["grade"])
        assert region["images"] == len(rows)
        assert region["covered"] == pytest.approx(np.mean([hits[row] for row in rows]))
    assert sum(region["images"] for region in found["regions"]) == len(test)


@pytest.mark.slow
def test_the_stated_share_is_covered_in_each_region():
    X, y, patients = drawn(900, noise=2.0)
    found = measured(X, y, group_folds(y, patients, 3), patients)
    assert found["covered"] > 0.78
    assert all(region["covered"] > 0.72 for region in found["regions"])
    assert found["width"] < 3
    assert found["refused"] < 0.04


def test_images_unlike_the_training_images_are_counted():
    X, y, patients = drawn(300)
    X[:30] += 40 * X.std(0)
    split = (np.arange(150, 300), np.arange(150))
    assert measured(X, y, [split], patients)["refused"] == pytest.approx(0.2, abs=0.05)
    few = (np.arange(240, 300), np.arange(60))
    assert measured(X, y, [few], patients)["refused"] == 0  # too few to know


def test_images_are_refused_beyond_the_limit_of_the_training_images():
    X, y, patients = drawn(300)
    X[:150] += np.linspace(0, 5, 150)[:, None] * X.std(0)
    train, test = np.arange(150, 300), np.arange(150)
    ranker = grading.make_ranker("ranking-svm").fit(X[train], y[train], patients[train])
    known = fit_training_range(ranker.standardised(X[train]), patients[train].astype(str))
    nearest = np.linalg.norm(ranker.standardised(X[test])[:, None] - known.values, axis=2).min(axis=1)
    assert np.mean(nearest > known.limit) > np.mean(nearest > 2 * known.limit) + 0.05
    assert measured(X, y, [(train, test)], patients)["refused"] == np.mean(nearest > known.limit)


def test_a_severity_says_nothing_about_the_picture():
    X, y, patients = drawn(150)
    found = measured(X[:, :1], y, group_folds(y, patients, 2), patients, name="severity")
    assert found["refused"] is None
