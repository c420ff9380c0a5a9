"""Re-ranking of one's own vectors."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import cbir
from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery, rank
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import plain_space
from cbir.rerank.ranked import rerank_vectors


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(60, 8))


def test_the_package_can_be_called(vectors):
    by_package, by_name = (
        cbir.rerank(vectors[:2], vectors, "none"),
        rerank_vectors(vectors[:2], vectors, "none"),
    )
    for of_package, of_name in zip(by_package, by_name, strict=True):
        assert np.array_equal(of_package, of_name)
    assert cbir.rerank.get("eprf", P=9).parameters["P"] == 9


def test_none_orders_by_euclidean_distance(vectors):
    queries = np.random.default_rng(1).normal(size=(3, 8))
    distances = np.linalg.norm(queries[:, None] - vectors[None], axis=2)
    ranking = rerank_vectors(queries, vectors, "none")
    assert np.array_equal(ranking.indices, np.argsort(distances, axis=1))
    assert np.allclose(ranking.distances, np.sort(distances, axis=1), atol=1e-5)
    assert (np.diff(ranking.scores) <= 0).all()


@pytest.mark.parametrize("method", ["auto", *cbir.rerank.names()])
def test_every_method_ranks_all_rows_once(vectors, method):
    ranking = rerank_vectors(vectors[0], vectors, method)
    assert ranking.indices.shape == ranking.scores.shape == ranking.distances.shape == (60,)
    assert sorted(ranking.indices) == list(range(60))
    assert np.isfinite(ranking.scores).all()
    again = rerank_vectors(vectors[:1].astype(np.float32), vectors, method, k=5)
    assert np.array_equal(again.indices, ranking.indices[None, :5])


def test_scores_are_those_of_the_method(vectors):
    gallery = Gallery((vectors.astype(np.float32),), np.arange(60), projected=True)
    query = vectors[7].astype(np.float32)
    reranked = cbir.rerank.get("eprf", P=4)(query, rank(query, gallery), gallery)
    expected = reranked.reported(reranked.scores)
    ranking = rerank_vectors(query, vectors, "eprf", P=4)
    assert np.allclose(ranking.scores, expected[ranking.indices])


def test_a_large_gallery_is_ranked_through_its_graph(vectors):
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    reranker, float_vectors = cbir.rerank.get("diffusion", local=20), vectors.astype(np.float32)
    graph = Neighbourhood(find_neighbours(float_vectors, plain_space(8)))
    gallery = Gallery((float_vectors,), np.arange(60), neighbourhood=graph, projected=True)
    scores = reranker(float_vectors[0], rank(float_vectors[0], gallery), gallery).scores
    ranking = rerank_vectors(vectors[0], vectors, "diffusion", local=20)
    assert np.array_equal(ranking.indices, np.argsort(-scores, kind="stable"))
    without = Gallery((float_vectors,), np.arange(60), projected=True)
    nearest_alone = reranker(float_vectors[0], rank(float_vectors[0], without), without).scores
    assert not np.array_equal(ranking.indices, np.argsort(-nearest_alone, kind="stable"))


@pytest.mark.parametrize("options", [{}, {"local": 20}], ids=["nearest", "graph"])
@pytest.mark.parametrize("method", ["diffusion", "diffusion-eprf"])
def test_relevance_flows_along_distances_of_vectors_of_different_lengths(method, options):
    moons, labels = make_moons(600, noise=0.06, random_state=0)
    for unit, origin in [(1.0, 0.0), (1000.0, 0.0), (1.0, 100.0)]:
        points = moons * unit + origin
        ranking = rerank_vectors(points[:20], points, method, k=50, **options)
        assert (labels[ranking.indices] == labels[:20, None]).mean() > 0.99
        expected = np.linalg.norm(points[ranking.indices] - points[:20, None], axis=2)
        assert np.allclose(ranking.distances, expected, rtol=1e-3, atol=1e-4 * unit)


@pytest.mark.parametrize("method", cbir.rerank.names())
def test_negative_zero_is_zero(method):
    query, vectors = np.random.default_rng(0).normal(size=4), np.random.default_rng(1).normal(size=(60, 4))
    query[0] = vectors[:, 0] = 0.0
    vectors[40] = vectors[50] = vectors[3]
    negative = query.copy(), vectors.copy()
    negative[0][0] = negative[1][40, 0] = -0.0
    expected = rerank_vectors(query, vectors, method)
    for of_zero, of_negative in zip(expected, rerank_vectors(*negative, method), strict=True):
        assert np.array_equal(of_zero, of_negative)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 8, 12, 16])
def test_copies_are_as_far_wherever_they_stand(dimensions):
    random = np.random.default_rng(0)
    for count in range(2, 60):
        query, vector = random.normal(size=(2, dimensions))
        ranking = rerank_vectors(query, np.tile(vector, (count, 1)), "none")
        assert len(set(ranking.distances.tolist())) == 1
        assert ranking.indices.tolist() == list(range(count))


def test_one_far_vector_does_not_blur_the_others():
    random = np.random.default_rng(0)
    near = random.normal(size=(300, 16))
    queries, vectors = (
        near[:20] + 0.3 * random.normal(size=(20, 16)),
        np.vstack([near, np.full((1, 16), 1e6)]),
    )
    ranking = rerank_vectors(queries, vectors, "none", k=300)
    assert (np.diff(ranking.distances, axis=1) >= 0).all()
    assert (ranking.indices[:, 0] == np.arange(20)).all()
    with_far, without = (rerank_vectors(queries, each, "diffusion", k=10).indices for each in (vectors, near))
    assert np.mean([len({*a} & {*b}) for a, b in zip(with_far.tolist(), without.tolist(), strict=True)]) > 9


def test_empty_and_single_rows():
    assert rerank_vectors(np.zeros((2, 3)), np.zeros((0, 3))).indices.shape == (2, 0)
    assert rerank_vectors(np.zeros((0, 3)), np.zeros((4, 3))).indices.shape == (0, 4)
    assert rerank_vectors([1.0, 2.0], [[1.0, 2.0]]).indices.tolist() == [0]
    assert rerank_vectors([9e18], [[-9e18], [9e18]], "none").indices.tolist() == [1, 0]  # the largest lengths
    alike = rerank_vectors([1.0, 0.0], np.ones((5, 2)))
    assert alike.indices.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("queries", "gallery", "options", "message"),
    [
        ([[1.0, 2.0]], [[1.0]], {}, "query_vectors has 2 columns and gallery_vectors 1"),
        ([1.0], [1.0, 2.0], {}, r"gallery_vectors has shape \(2,\)"),
        ([[[1.0]]], [[1.0]], {}, r"query_vectors has shape \(1, 1, 1\)"),
        ([[np.nan]], [[1.0]], {}, "query_vectors has values that are not finite"),
        ([[1.0]], [[1e300]], {}, "gallery_vectors has values that are not finite, or too large"),
        ([["a"]], [[1.0]], {}, "query_vectors must be an array of numbers"),
        ([[1.0]], [[1.0], [1.0, 2.0]], {}, "gallery_vectors must be an array of numbers"),
        ([[1e19]], [[1.0]], {}, "query_vectors has values that are not finite, or too large"),
        ([[1.0]], [[1e19], [1.0]], {}, "gallery_vectors has values that are not finite, or too large"),
        ([[1j]], [[1.0]], {}, "query_vectors must be an array of numbers"),
        ([[1.0]], [[1.0]], {"k": 0}, "k: a whole number, at least 1"),
        ([[1.0]], [[1.0]], {"k": 2.5}, "k: a whole number, at least 1"),
        ([[1.0]], np.zeros((0, 1)), {"k": -1}, "k: a whole number, at least 1"),
        ([[0.0]], [[1e-30], [0.0]], {}, "only values below 1e-15; multiply all vectors"),
        ([[1.0]], [[1.0]], {"k": True}, "k: a whole number, at least 1, not True"),
        (np.zeros((1, 0)), np.zeros((3, 0)), {}, "vectors without values"),
        ([], [], {}, "query_vectors has shape"),
        (np.ma.array([[1.0]], mask=[[1]]), [[1.0]], {}, "query_vectors has masked values"),
        (
            np.array([["2026-01-01"]], "datetime64[D]"),
            [[1.0]],
            {},
            "query_vectors must be an array of numbers",
        ),
        ([[1.0]], [[1.0]], {"method": None}, "there is no re-ranker None"),
        ([[1.0]], [[1.0]], {"method": "eprf", "P": np.arange(2)}, "P must be a whole number"),
        ([[1.0]], [[1.0]], {"method": "eprf", "preset": np.arange(2)}, "preset must be paper"),
        ([[1.0]], [[1.0]], {"method": "best"}, "there is no re-ranker 'best'"),
        ([[1.0]], [[1.0]], {"method": "eprf", "Q": 1}, "eprf has no parameter 'Q'"),
    ],
)
def test_wrong_input_is_refused(queries, gallery, options, message):
    with pytest.raises(InvalidInput, match=message):
        rerank_vectors(queries, gallery, **options)
