"""k-reciprocal encoding against the published algorithm with sets, image by image."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbir import rerank
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.rerank.k_reciprocal import nearest_neighbours, pairwise_squared_distances


def reference(images: list[list[float]], k1: int, k2: int, lam: float) -> list[float]:
    """d* of each image but the first, which is the query, to the query."""
    m = range(len(images))
    d = [[math.dist(images[i], images[j]) ** 2 for j in m] for i in m]
    order = [sorted(m, key=lambda j, i=i: (j != i, d[i][j], j)) for i in m]
    largest = [max(row) for row in d]
    d = [[d[i][j] / largest[i] if largest[i] else 0.0 for j in m] for i in m]

    def near(i: int, k: int) -> list[int]:
        return order[i][: k + 1]

    def mutual(i: int, k: int) -> set[int]:
        return {j for j in near(i, k) if i in near(j, k)}

    V = []
    for i in m:
        expanded = mutual(i, k1)
        for j in mutual(i, k1):
            half = mutual(j, round(k1 / 2))
            if len(mutual(i, k1) & half) >= 2 / 3 * len(half):
                expanded = expanded | half
        weights = {j: math.exp(-d[i][j]) for j in expanded}
        total = sum(weights.values())
        V.append([weights.get(j, 0.0) / total for j in m])
    V = [[sum(V[g][j] for g in order[i][:k2]) / len(order[i][:k2]) for j in m] for i in m]
    answer = []
    for i in m[1:]:
        lower = sum(min(a, b) for a, b in zip(V[0], V[i], strict=True))
        upper = sum(max(a, b) for a, b in zip(V[0], V[i], strict=True))
        answer.append((1 - lam) * (1 - lower / upper) + lam * d[0][i])
    return answer


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 90),
    M=st.integers(1, 60),
    k1=st.integers(1, 25),
    k2=st.integers(1, 8),
    lam=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_distances_are_those_of_the_published_algorithm(seed, n, M, k1, k2, lam):
    random = np.random.default_rng(seed)
    centres = 2.0 * random.standard_normal((4, 6))
    vectors = (centres[random.integers(0, 4, n)] + random.standard_normal((n, 6))).astype(np.float32)
    query = (centres[0] + random.standard_normal(6)).astype(np.float32)
    gallery = Gallery((vectors,), np.arange(n))
    ranking = rank(query, gallery)
    result = rerank.get("k-reciprocal", M=M, k1=k1, k2=k2, lam=lam)(query, ranking, gallery)
    positions = sorted(range(n), key=lambda i: (-ranking.similarities[i], i))[:M]
    expected = reference(
        [query.astype(float).tolist(), *vectors[positions].astype(float).tolist()], k1, k2, lam
    )
    np.testing.assert_allclose(result.scores[positions], 2 - np.array(expected), atol=2e-6)
    rest = np.setdiff1d(np.arange(n), positions)
    assert np.array_equal(result.scores[rest], ranking.similarities[rest])


def test_a_dense_group_beside_the_query_falls_behind_the_querys_own():
    random = np.random.default_rng(3)
    own = random.standard_normal((40, 8))
    dense = np.r_[2.6, np.zeros(7)] + 0.05 * random.standard_normal((40, 8))
    vectors = np.vstack([own, dense]).astype(np.float32)
    gallery = Gallery((vectors,), np.arange(80))
    query = np.zeros(8, np.float32)
    ranking = rank(query, gallery)
    after = rerank.get("k-reciprocal", k1=20, k2=3)(query, ranking, gallery).scores
    assert np.mean(top_k(ranking.similarities, 40) < 40) < 0.7
    assert np.mean(top_k(after, 40) < 40) > 0.85


def test_neighbours_of_equally_distant_images_follow_the_list():
    images = np.tile(np.float32([1.0, 2.0]), (6, 1))
    squared = pairwise_squared_distances(images, np.float32([1.0, 2.0]))
    assert np.all(squared == 0.0)
    assert nearest_neighbours(squared, 4).tolist() == [
        [0, 1, 2, 3], [1, 0, 2, 3], [2, 0, 1, 3], [3, 0, 1, 2], [4, 0, 1, 2], [5, 0, 1, 2], [6, 0, 1, 2],
    ]  # fmt: skip


@pytest.mark.parametrize("M", [200, 1000])
def test_never_more_than_the_best_images_are_compared(M):
    vectors = np.random.default_rng(0).standard_normal((5000, 16)).astype(np.float32)
    gallery = Gallery((vectors,), np.arange(5000))
    ranking = rank(vectors[0], gallery)
    scores = rerank.get("k-reciprocal", M=M)(vectors[0], ranking, gallery).scores
    before, after = top_k(ranking.similarities, 5000), top_k(scores, 5000)
    assert set(after[:M]) == set(before[:M])
    assert np.array_equal(after[M:], before[M:])


def test_a_sure_first_answer_stays_first_and_the_others_keep_their_order() -> None:
    random = np.random.default_rng(5)
    vectors = random.standard_normal((80, 4)).astype(np.float32)
    gallery, moved = Gallery((vectors,), np.arange(80)), 0
    for query in random.standard_normal((20, 4)).astype(np.float32):
        ranking = rank(query, gallery)
        nearest, fifth = top_k(ranking.similarities, 5)[[0, 4]]
        plain = top_k(rerank.get("k-reciprocal")(query, ranking, gallery).scores, 80).tolist()
        kept = top_k(rerank.get("k-reciprocal", sure=0.8)(query, ranking, gallery).scores, 80).tolist()
        sure = ranking.distances[nearest] < 0.8 * ranking.distances[fifth]
        assert kept == ([nearest, *(row for row in plain if row != nearest)] if sure else plain)
        moved += kept != plain
    assert moved
