"""Measures of agreement, folds, and the comparison of methods."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from scipy.stats import f
from sklearn.metrics import cohen_kappa_score

from cbir.errors import InvalidInput
from cbir.evaluation.significance import group_folds
from cbir.learn import grading
from cbir.learn.grading import baselines
from cbir.learn.grading.grade_scale import measure_agreement, nearest_level, quadratic_kappa
from cbir.learn.grading.grader_evaluation import (
    compare_graders,
    error_histogram,
    evaluate_grader,
    grade_scatter,
    ndcg_boxes,
)
from tests.cbir.learn.grading.cases import drawn


def test_agreement():
    predicted, grades = np.array([0.5, 1.0, 2.6, 4.4]), np.array([0.0, 1, 4, 3])
    found = measure_agreement(predicted, grades, np.arange(5.0), 0.9)
    assert found["within_half"] == 0.5
    assert found["within_one"] == 0.5
    assert found["exact"] == 0.25
    assert found["mae"] == pytest.approx((0.5 + 0 + 1.4 + 1.4) / 4)
    assert found["kappa"] == pytest.approx(
        cohen_kappa_score([1, 1, 3, 4], [0, 1, 4, 3], weights="quadratic", labels=range(5))
    )
    assert list(found) == ["within_half", "within_one", "exact", "mae", "kappa", "ndcg"]


def test_nearest_level():
    assert nearest_level(np.array([-3.0, 1.49, 1.5, 2.4, 99]), np.array([1.0, 2.0, 2.5])).tolist() == [
        1,
        1,
        2,
        2.5,
        2.5,
    ]
    assert nearest_level(np.array([7.0]), np.array([1.0])).tolist() == [1]


def test_kappa():
    random = np.random.default_rng(0)
    one, other = random.integers(0, 5, 200), random.integers(0, 5, 200)
    expected = cohen_kappa_score(one, other, weights="quadratic")
    assert quadratic_kappa(one.astype(float), other.astype(float)) == pytest.approx(expected)
    for equal in (np.ones(3), np.full(3, 0.1), np.empty(0)):
        assert np.isnan(quadratic_kappa(equal, equal))


def test_folds_part_no_patient():
    _, y, patients = drawn(200)
    splits = group_folds(y, patients, 5)
    assert sorted(np.concatenate([test for _, test in splits]).tolist()) == list(range(200))
    for train, test in splits:
        assert not set(patients[train]) & set(patients[test])
        assert len(train) + len(test) == 200
        assert np.bincount(y[test].astype(int), minlength=5)[1:].min() >= 3
    with pytest.raises(InvalidInput, match="there are 3"):
        group_folds(y[:6], patients[:6], 5)
    with pytest.raises(InvalidInput, match="at least 2 folds"):
        group_folds(y, patients, 1)


@pytest.mark.parametrize("name", [*grading.names(), *baselines.names()])
def test_every_method(name):
    X, y, patients = drawn(300)
    found = evaluate_grader(name, X, y, group_folds(y, patients, 3), patients)
    assert found.overall["within_one"] > 0.8
    assert found.overall["mae"] == pytest.approx(np.abs(found.predicted - found.grades).mean())
    assert len(found.folds) == 3
    assert len(found.lists) in (14, 15)
    assert found.overall["ndcg"] == pytest.approx(found.lists.mean())


def test_one_split():
    X, y, _ = drawn(100)
    found = evaluate_grader(
        "ranking-svm", X, y, [(np.arange(60), np.arange(60, 100))], list_size=None, options={"C": 1.0}
    )
    assert found.tested.tolist() == list(range(60, 100))
    assert found.lists.shape == (1,)


def test_images_of_a_patient_stay_together_in_training():
    """Doubled images of random grades: each would be graded by its copy, and the least ridge seem best."""
    random = np.random.default_rng(0)
    X, y = np.repeat(random.normal(size=(60, 6)), 2, axis=0), np.repeat(random.integers(0, 4, 60), 2) * 1.0
    patients, (train, test) = np.repeat(np.arange(60), 2), (np.arange(90), np.arange(90, 120))
    found = evaluate_grader("regression", X, y, [(train, test)], patients, options={"kernel": "auto"})
    together, apart = (
        baselines.RegressionGrader(kernel="auto").fit(X[train], y[train], groups).predict(X[test])
        for groups in (patients[train], None)
    )
    np.testing.assert_allclose(found.predicted, together)
    assert not np.allclose(together, apart, atol=0.1)


def test_unknown():
    X, y, patients = drawn(100)
    with pytest.raises(InvalidInput, match=r"s-ndcg.*regression"):
        evaluate_grader("boosted", X, y, group_folds(y, patients, 2))


def test_anova_and_tukey():
    multicomp = pytest.importorskip("statsmodels.stats.multicomp")
    X, y, patients = drawn(400, noise=2)
    splits = group_folds(y, patients, 4)
    found = [
        evaluate_grader(name, X, y, splits, patients) for name in ("ranking-svm", "adarank", "classification")
    ]
    p, compared = compare_graders(found)
    names = np.repeat([one.name for one in found], [len(one.lists) for one in found])
    table = multicomp.pairwise_tukeyhsd(np.concatenate([one.lists for one in found]), names)
    lists = np.array([one.lists for one in found])
    between = lists.shape[1] * lists.mean(axis=1).var(ddof=1)
    assert p == pytest.approx(f.sf(between / lists.var(axis=1, ddof=1).mean(), 2, lists.size - 3))
    assert len(compared) == 3
    for one in compared:
        i, j = sorted([one.one, one.other])
        row = next(row for row in table.summary().data[1:] if set(row[:2]) == {i, j})
        assert abs(one.difference) == pytest.approx(abs(row[2]), abs=1e-4)
        assert one.p == pytest.approx(row[3], abs=1e-3)
        assert one.high - one.low == pytest.approx(row[5] - row[4], abs=1e-3)
    assert np.isnan(compare_graders(found[:1])[0])


@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e9])
def test_figures_of_any_grades(factor):
    _, y, _ = drawn(100)
    grades = y * factor
    predicted = grades + factor * np.random.default_rng(0).normal(size=100)
    for figure in (
        error_histogram(predicted - grades),
        grade_scatter(predicted, grades),
        ndcg_boxes([("a", y / 4), ("<b>", y[:0])]),
    ):
        root = ElementTree.fromstring(figure)
        assert len(figure) < 200_000
        assert "nan" not in figure
        assert "inf" not in figure
        assert root.get("role") == "img"


def test_the_boxes_are_those_of_the_numbers():
    values = np.array([0.1, 0.5, 0.6, 0.7, 0.8, 0.9])
    figure = ndcg_boxes([("a", values)])
    assert f"median {np.median(values):.4f}" in figure
    outliers = ElementTree.fromstring(figure).find(".//*[@class='outliers']")
    assert (
        len(list(outliers.iter("{http://www.w3.org/2000/svg}use"))) == 1
    )  # 0.1 is beyond 1.5 interquartile ranges
    assert error_histogram(np.array([-1.0, 0, 0])).count('class="bar"') == 9
