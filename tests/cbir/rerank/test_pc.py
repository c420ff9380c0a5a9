"""Post-retrieval clustering against agglomeration one merge at a time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbir import rerank
from cbir.gallery.gallery import Gallery, RankingList, rank, top_k
from cbir.rerank.reranker import score_above_rest


def agglomerated(images: list[list[float]], count: int) -> list[list[int]]:
    """Clusters of images: those with the smallest mean distance between members merge, until `count` are left."""
    clusters = [[i] for i in range(len(images))]

    def distances_apart(one: list[int], other: list[int]) -> float:
        return sum(math.dist(images[i], images[j]) for i in one for j in other) / (len(one) * len(other))

    while len(clusters) > count:
        pairs = [(a, b) for a in range(len(clusters)) for b in range(a)]
        a, b = min(pairs, key=lambda pair: distances_apart(clusters[pair[0]], clusters[pair[1]]))
        clusters[b] += clusters.pop(a)
    return clusters


def reference(
    query: np.ndarray, ranking: RankingList, vectors: np.ndarray, M: int, clusters: int, weight: float
) -> dict[int, float]:
    """d' of the re-ranked images by their place."""
    positions = sorted(range(len(ranking)), key=lambda i: -ranking.similarities[i])[:M]
    images = [vectors[ranking.rows[i]].astype(float).tolist() for i in positions]
    q = query.astype(float).tolist()
    adjusted = {}
    for cluster in agglomerated(images, clusters):
        centre = [sum(images[i][k] for i in cluster) / len(cluster) for k in range(len(q))]
        for i in cluster:
            adjusted[positions[i]] = (1 - weight) * math.dist(q, images[i]) + weight * math.dist(q, centre)
    return adjusted


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 60),
    M=st.integers(2, 30),
    clusters=st.integers(1, 12),
    weight=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_ranks_follow_the_distance_of_image_and_cluster(seed, n, M, clusters, weight):
    random = np.random.default_rng(seed)
    centres = 2.0 * random.standard_normal((5, 6))
    vectors = (centres[random.integers(0, 5, n)] + random.standard_normal((n, 6))).astype(np.float32)
    query = (centres[0] + random.standard_normal(6)).astype(np.float32)
    gallery = Gallery((vectors,), np.arange(n))
    ranking = rank(query, gallery)
    result = rerank.get("pc", M=M, clusters=clusters, weight=weight)(query, ranking, gallery)
    expected = reference(query, ranking, vectors, M, clusters, weight)
    farthest = max(expected.values())
    for place in range(n):
        if place in expected:
            assert result.scores[place] == pytest.approx(2 - expected[place] / farthest, abs=1e-5)
        else:
            assert result.scores[place] == ranking.similarities[place]


def test_a_tight_group_overtakes_a_nearer_stray_image():
    random = np.random.default_rng(2)
    group = np.float32([3.0, 0.0]) + 0.1 * random.standard_normal((6, 2)).astype(np.float32)
    # It falls into one cluster with those far behind it.
    stray = np.float32([[-2.8, 0.0], [-6.0, 0.0]])
    vectors = np.vstack([group, stray, [[-2.7, 4.0], [-3.0, -4.0]]]).astype(np.float32)
    query = np.zeros(2, np.float32)
    gallery = Gallery((vectors,), np.arange(10))
    ranking = rank(query, gallery)
    assert top_k(ranking.similarities, 1)[0] == 6
    scores = rerank.get("pc", clusters=2, weight=0.0)(query, ranking, gallery).scores
    assert top_k(scores, 1)[0] == 6
    scores = rerank.get("pc", clusters=2, weight=0.9)(query, ranking, gallery).scores
    assert set(top_k(scores, 6).tolist()) == set(range(6))


def test_equally_close_images_are_in_the_order_of_their_similarity():
    vectors = np.float32([[3, 0], [1, 0], [2, 0], [9, 0]])
    ranking = rank(np.zeros(2, np.float32), Gallery((vectors,), np.arange(4)))
    scores = score_above_rest(ranking, np.array([0, 1, 2]), np.float32([0.5, 0.5, 0.5]))
    assert np.argsort(-scores).tolist() == [1, 2, 0, 3]
    assert scores[:3] == pytest.approx(1.5, abs=1e-5)
    assert scores[3] == ranking.similarities[3]
