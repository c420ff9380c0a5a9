"""The kernel width that follows the distances between images."""

import numpy as np
import pytest

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery, rank
from cbir.rerank.feedback import Feedback
from cbir.rerank.kernel_expansion import kernel_gamma

METHODS = pytest.mark.parametrize("name", ["eprf", "nsu-eprf", "svm-eprf", "nprf"])


def gallery_of(vectors: np.ndarray) -> Gallery:
    return Gallery((np.ascontiguousarray(vectors, np.float32),), np.arange(len(vectors)))


def unit_vectors(n: int, d: int) -> np.ndarray:
    """Ten classes of directions, in random order."""
    random = np.random.default_rng(0)
    centres = 1.2 * random.standard_normal((10, d))
    vectors = centres[random.integers(0, 10, n)] + random.standard_normal((n, d))
    return np.float32(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_is_the_sharpness_over_the_median_squared_distance():
    vectors, query = np.zeros((5, 3), np.float32), np.zeros(3, np.float32)
    vectors[:, 0] = [1, 2, 4, 6, 9]
    gallery, rows = gallery_of(vectors), np.arange(5)
    assert kernel_gamma("auto", query, gallery, rows, 8.0) == pytest.approx(8 / 16)
    assert kernel_gamma("auto", query, gallery, rows[2:], 9.0) == pytest.approx(9 / 36)
    assert kernel_gamma(6.0, query, gallery, rows, 8.0) == 2.0


@pytest.mark.parametrize(
    "vectors", [np.zeros((0, 4)), np.zeros((3, 4)), np.eye(4)[[0, 1, 1, 1]], np.full((2, 4), 1e-25)]
)
def test_images_alike_and_none_at_all_give_a_finite_width(vectors):
    query = np.float32(np.eye(4)[1] if len(vectors) == 4 else np.zeros(4))
    gamma = kernel_gamma("auto", query, gallery_of(vectors), np.arange(len(vectors)), 15.0)
    assert 0.0 < np.float32(gamma) < np.inf


def test_where_most_images_are_the_query_the_largest_distance_is_typical():
    vectors = np.float32([[0, 0], [0, 0], [0, 0], [3, 4], [0, 2]])
    assert kernel_gamma("auto", vectors[0], gallery_of(vectors), np.arange(5), 15.0) == pytest.approx(15 / 25)


@METHODS
@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_scale_changes_nothing(name, scale):
    vectors = unit_vectors(300, 16)
    results = []
    for factor in (1.0, np.float32(scale)):
        gallery, query = gallery_of(vectors * factor), vectors[0] * factor
        # lowest=0: the pool is no larger than the draw, which follows the query's own bytes
        reranker = rerank.get(name, lowest=0)
        results.append(reranker(query, rank(query, gallery), gallery).scores)
    np.testing.assert_allclose(results[1], results[0], atol=1e-3)


@METHODS
@pytest.mark.parametrize("d", [128, 1280])
def test_on_unit_vectors_the_first_answers_hold(name, d):
    """With gamma = 2 the kernel of any two unit vectors is almost 1."""
    vectors = unit_vectors(400, d)
    gallery = gallery_of(vectors)
    similar = 0
    for row in range(10):
        ranking = rank(vectors[row], gallery, np.delete(np.arange(400), row))
        scores = rerank.get(name)(vectors[row], ranking, gallery).scores
        nearest = np.argsort(-ranking.similarities)[:20]
        similar += len(np.intersect1d(nearest, np.argsort(-scores)[:20]))
    assert similar > 100


@METHODS
def test_auto_is_a_value_and_nonsense_is_not(name):
    assert (
        rerank.get(name).parameters["gamma"] == rerank.get(name, gamma="auto").parameters["gamma"] == "auto"
    )
    assert rerank.get(name, gamma="2").parameters["gamma"] == 2.0
    with pytest.raises(InvalidInput, match=r"gamma must be a number from .* to .* or auto, not 'wide'"):
        rerank.get(name, gamma="wide")
    with pytest.raises(InvalidInput, match="C must be a number"):
        rerank.get(name, C="auto")
    assert Feedback(gamma="auto").parameters["gamma"] == "auto"
