"""Query expansion against its formula, term by term."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbir import rerank
from cbir.gallery.gallery import Gallery, rank


def similarities(query: list[float], images: list[list[float]]) -> list[float]:
    distances = [math.dist(query, image) for image in images]
    nearest, farthest = min(distances), max(distances)
    return [1 - (d - nearest) / (farthest - nearest) for d in distances]


def reference(query: np.ndarray, vectors: np.ndarray, P: int, alpha: float) -> list[float]:
    images, q = vectors.astype(float).tolist(), query.astype(float).tolist()
    before = similarities(q, images)
    expanded, total = list(q), 1.0
    for i in sorted(range(len(images)), key=lambda i: -before[i])[:P]:
        weight = before[i] ** alpha
        total += weight
        expanded = [a + weight * b for a, b in zip(expanded, images[i], strict=True)]
    return similarities([a / total for a in expanded], images)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 200),
    d=st.integers(2, 20),
    P=st.integers(1, 30),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0]),
)
def test_the_query_moves_as_the_formula_says(seed, n, d, P, alpha):
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((n, d)).astype(np.float32)
    query = random.standard_normal(d).astype(np.float32)
    gallery = Gallery((vectors,), np.arange(n))
    result = rerank.get("aqe", P=P, alpha=alpha)(query, rank(query, gallery), gallery)
    assert result.scope == "collection"
    # Two images about as far from the query: rounding in float32 spreads over the whole of [0, 1].
    spread = np.ptp(np.linalg.norm(vectors - query, axis=1))
    tolerance = 1e-5 / min(1.0, spread)
    np.testing.assert_allclose(result.scores, reference(query, vectors, P, alpha), atol=10 * tolerance)


def test_an_image_that_only_the_expanded_query_is_near_to_moves_up():
    # A row of images: the query at its left end, one stray image at the same distance to the other side.
    vectors = np.float32([[1, 0], [2, 0], [3, 0], [4, 0], [-3.9, 0], [9, 9]])
    query = np.zeros(2, np.float32)
    gallery = Gallery((vectors,), np.arange(6))
    ranking = rank(query, gallery)
    assert ranking.similarities[4] > ranking.similarities[3]
    scores = rerank.get("aqe", P=3, alpha=0.0)(query, ranking, gallery).scores
    assert scores[3] > scores[4]


def test_images_that_weigh_nothing_leave_the_query_where_it_is():
    vectors = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    query = vectors[0] + np.float32(1.0)
    gallery = Gallery((vectors,), np.arange(50))
    ranking = rank(query, gallery)
    # The nearest has similarity 1 and halves the way to it; all others vanish in the hundredth power.
    near = vectors[ranking.similarities.argmax()]
    result = rerank.get("aqe", P=5, alpha=100.0)(query, ranking, gallery).scores
    expected = rank((query + near) / 2, gallery).similarities
    assert result == pytest.approx(expected, abs=2e-2)
