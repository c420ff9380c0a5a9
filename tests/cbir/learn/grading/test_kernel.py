"""Ranking functions on kernels: what a line cannot rank, and which of the two is taken."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from cbir.errors import InvalidInput
from cbir.learn import grading
from cbir.learn.grading.interpolation import GradeInterpolator
from cbir.learn.grading.stored_grading import StoredGrading, read_stored_grading, store_grading
from tests.cbir.learn.grading.cases import drawn

BOTH = pytest.mark.parametrize("name", ["s-ndcg", "ranking-svm"])


def bent(count=300, seed=0):
    """Grades by the distance from the middle, which no line ranks."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, 3))
    away = np.linalg.norm(X, axis=1)
    return X, 1.0 + np.searchsorted(np.quantile(away, [0.3, 0.6, 0.9]), away)


def tau(made, X, y):
    return kendalltau(made.predict(X), y).statistic


@BOTH
def test_kernels_rank_what_a_line_cannot(name):
    X, y = bent()
    new, truth = bent(seed=1)
    linear, rbf, auto = (
        grading.make_ranker(name, kernel=kernel).fit(X, y) for kernel in ("linear", "rbf", "auto")
    )
    assert tau(linear, new, truth) < 0.3
    assert tau(rbf, new, truth) > 0.7
    assert tau(auto, new, truth) > 0.7
    assert rbf.landmarks_.shape == (300, 3)


@BOTH
def test_a_line_is_kept_where_it_does_better(name):
    X, y, patients = drawn(400, 30, noise=2.0)
    linear, rbf, auto = (
        grading.make_ranker(name, kernel=kernel).fit(X[:300], y[:300], patients[:300])
        for kernel in ("linear", "rbf", "auto")
    )
    line, bend, tuned = (tau(ranker, X[300:], y[300:]) for ranker in (linear, rbf, auto))
    assert tuned > bend
    assert tuned > line - 0.05


@BOTH
def test_one_group_leaves_nothing_to_tune_with(name):
    X, y = bent(60)
    auto = grading.make_ranker(name, kernel="auto").fit(X, y, np.zeros(60))
    assert np.isfinite(auto.predict(X)).all()


@BOTH
def test_equal_images_are_no_trouble_as_landmarks(name):
    X, y = bent(40)
    fitted = grading.make_ranker(name, kernel="rbf").fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    assert np.isfinite(fitted.predict(X)).all()


@BOTH
def test_kept_and_read_back(name):
    X, y = bent(100)
    made = GradeInterpolator(grading.make_ranker(name, kernel="rbf")).fit(X, y)
    kept = store_grading(
        made, profile_hash="0" * 16, column="grade", where=(), images=100, patients=100, fitted="now"
    )
    back = read_stored_grading(kept.model_dump_json(), "grade")
    assert isinstance(back, StoredGrading)
    np.testing.assert_allclose(back.fitted_ranker().predict(X), made.ranker_.predict(X))
    damaged = kept.model_dump_json().replace('"data":"', '"data":"!')
    with pytest.raises(InvalidInput, match="damaged; run `cbir grade fit` again"):
        read_stored_grading(damaged, "grade").fitted_ranker()


@BOTH
def test_refuses(name):
    X, y = bent(20)
    with pytest.raises(InvalidInput, match="linear, rbf, auto"):
        grading.make_ranker(name, kernel="cubic").fit(X, y)
