"""What every ranker promises."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cbir.errors import InvalidInput
from cbir.learn import grading
from tests.cbir.learn.grading.cases import drawn

EVERY = pytest.mark.parametrize("name", grading.names())


@EVERY
def test_ranks_what_it_learnt_and_what_it_did_not(name):
    X, y, _ = drawn(400)
    fitted = grading.make_ranker(name).fit(X[:300], y[:300])
    assert fitted.score(X[:300], y[:300]) > 0.85
    assert fitted.score(X[300:], y[300:]) > 0.8
    assert fitted.predict(X[y == 4]).mean() > fitted.predict(X[y == 1]).mean()


@EVERY
def test_conventions(name):
    X, y, _ = drawn()
    made = grading.make_ranker(name, list_size=20)
    assert not [key for key in vars(made) if key.endswith("_")]
    before = made.get_params()
    assert made.fit(X, y) is made
    assert made.get_params() == before
    assert made.n_features_in_ == 6
    again = clone(made)
    assert again.get_params() == before
    with pytest.raises(NotFittedError):
        again.predict(X)
    np.testing.assert_array_equal(again.fit(X, y).predict(X), made.predict(X))
    assert made.predict(X).dtype == np.float64
    assert made.predict(X).shape == (len(X),)
    assert again.set_params(seed=5).seed == 5


@EVERY
def test_an_image_scores_the_same_in_any_company(name):
    X, y, _ = drawn()
    fitted = grading.make_ranker(name).fit(X, y)
    np.testing.assert_allclose(fitted.predict(X[:1]), fitted.predict(X)[:1])
    assert fitted.predict(X[:0]).shape == (0,)


@EVERY
def test_fits_into_scikit_learn(name):
    X, y, _ = drawn()
    scores = cross_val_score(make_pipeline(StandardScaler(), grading.make_ranker(name)), X, y, cv=3)
    assert (scores > 0.7).all()


@EVERY
def test_neither_units_nor_the_input_matter(name):
    X, y, _ = drawn()
    kept = X.copy(), y.copy()
    fitted = grading.make_ranker(name).fit(X, y)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    other = grading.make_ranker(name).fit(X * 1000 + 3, y)
    np.testing.assert_allclose(other.predict(X * 1000 + 3), fitted.predict(X), rtol=1e-4, atol=1e-6)
    single = grading.make_ranker(name).fit(X.astype(np.float32).tolist(), y.astype(int).tolist())
    np.testing.assert_allclose(single.predict(X), fitted.predict(X), rtol=1e-2, atol=1e-3)


@EVERY
def test_a_constant_feature_tells_nothing(name):
    X, y, _ = drawn()
    with_constant = np.column_stack([X, np.full(len(X), 0.1)])
    fitted = grading.make_ranker(name).fit(with_constant, y)
    scores = fitted.predict(with_constant)
    with_constant[:, -1] = 1e6
    np.testing.assert_array_equal(fitted.predict(with_constant), scores)


@EVERY
def test_two_images_are_enough(name):
    fitted = grading.make_ranker(name).fit([[0.0, 1.0], [1.0, 1.0]], [0, 3])
    assert fitted.predict([[1.0, 1.0]]) > fitted.predict([[0.0, 1.0]])


@EVERY
def test_features_that_say_nothing(name):
    scores = grading.make_ranker(name).fit(np.ones((9, 2)), [1, 2, 3] * 3).predict(np.ones((4, 2)))
    assert (scores == scores[0]).all()


@EVERY
@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        ([[1.0], [np.nan]], [1, 2], "finite"),
        ([[1.0], [np.inf]], [1, 2], "finite"),
        ([[1.0], [2.0]], [1, np.nan], "finite"),
        ([[1.0], [2.0]], [2, 2], "are equal"),
        ([[1.0]], [2], "are equal"),
        (np.empty((0, 3)), [], "no graded images"),
        ([[1.0], [2.0]], [1, 2, 3], "as many"),
        ([1.0, 2.0], [1, 2], "shape"),
        ([["a"], ["b"]], [1, 2], "real numbers"),
        ([[1j], [2j]], [1, 2], "real numbers"),
    ],
)
def test_refused(name, X, y, said):
    with pytest.raises(InvalidInput, match=said):
        grading.make_ranker(name).fit(X, y)


@EVERY
def test_refuses_other_features_than_it_learnt(name):
    X, y, _ = drawn()
    with pytest.raises(InvalidInput, match="fitted with 6"):
        grading.make_ranker(name).fit(X, y).predict(X[:, :5])


@EVERY
@pytest.mark.parametrize("size", [1, 0, -3, 2.5, True, "20"])
def test_refuses_a_list_size(name, size):
    X, y, _ = drawn()
    with pytest.raises(InvalidInput, match="a list has"):
        grading.make_ranker(name, list_size=size).fit(X, y)


@EVERY
def test_decimal_and_negative_and_huge_grades(name):
    X, y, _ = drawn()
    for grades in (y - 2.5, y * 1e3, y + np.random.default_rng(0).uniform(0, 0.1, len(y))):
        fitted = grading.make_ranker(name).fit(X, grades)
        assert np.isfinite(fitted.predict(X)).all()
        assert 0 < fitted.score(X, grades) <= 1


def test_unknown():
    with pytest.raises(InvalidInput, match="s-ndcg, ranking-svm"):
        grading.make_ranker("listnet")
    with pytest.raises(InvalidInput, match="there is no ranker None"):
        grading.make_ranker(None)
    with pytest.raises(InvalidInput, match="options depth"):
        grading.make_ranker("rankboost", depth=3)
