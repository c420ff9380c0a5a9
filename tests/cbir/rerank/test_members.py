"""What every re-ranker must do, whichever it is."""

import dataclasses
import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.rerank.ranked import rerank_top, rerank_vectors

MEMBERS = pytest.mark.parametrize("name", rerank.names())
# In the graph of diffusion copies of an image are nodes of their own, joined in turn with the nearest of all copies.
ALIKE = pytest.mark.parametrize("name", [name for name in rerank.names() if not name.startswith("diffusion")])


def vectors_of(n: int, d: int = 9, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def gallery_of(vectors: np.ndarray) -> Gallery:
    return Gallery((np.ascontiguousarray(vectors, np.float32),), np.arange(len(vectors)))


def scores_of(
    name: str, query: np.ndarray, vectors: np.ndarray, rows: np.ndarray | None = None
) -> np.ndarray:
    gallery = gallery_of(vectors)
    return rerank.get(name)(query, rank(query, gallery, rows), gallery).scores


@MEMBERS
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 6, 7, 11, 12, 13, 59, 61, 999, 1001])
def test_any_number_of_images(name, n):
    vectors = vectors_of(n)
    scores = scores_of(name, np.ones(9, np.float32), vectors)
    assert scores.shape == (n,)
    assert scores.dtype in (np.float32, np.float64)
    assert np.isfinite(scores).all()


@MEMBERS
@pytest.mark.parametrize("n", [1, 2, 7, 100, 2500])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_images_all_alike_keep_the_order_of_their_rows(name, n, offset):
    one = np.random.default_rng(8).standard_normal(168).astype(np.float32)
    scores = scores_of(name, one + np.float32(offset), np.tile(one, (n, 1)))
    assert np.isfinite(scores).all()
    assert top_k(scores, n).tolist() == list(range(n))


@MEMBERS
def test_named_rows_are_a_collection_of_their_own(name):
    vectors, rows = vectors_of(900), np.flatnonzero(np.random.default_rng(1).random(900) < 0.4)
    query = vectors[3] + np.float32(0.1)
    np.testing.assert_allclose(
        scores_of(name, query, vectors, rows), scores_of(name, query, vectors[rows]), atol=1e-5
    )


@MEMBERS
def test_same_question_same_answer(name):
    vectors = vectors_of(5000)
    assert np.array_equal(scores_of(name, vectors[9], vectors), scores_of(name, vectors[9].copy(), vectors))


@MEMBERS
def test_nothing_is_noted_where_there_are_enough_images(name):
    vectors = vectors_of(400)
    gallery = gallery_of(vectors)
    assert rerank.get(name)(vectors[0], rank(vectors[0], gallery), gallery).notes == ()


@MEMBERS
def test_queries_at_the_same_time_do_not_disturb_each_other(name):
    vectors = vectors_of(6000)
    alone = [scores_of(name, vectors[row], vectors) for row in range(8)]
    with ThreadPoolExecutor(4) as executor:
        together = list(executor.map(lambda row: scores_of(name, vectors[row], vectors), range(8)))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


@MEMBERS
@pytest.mark.parametrize("k", [0, 1, 6, 20, 2000])
def test_the_best_few_are_the_first_of_all(name, k):
    vectors = vectors_of(1500)
    query, gallery = vectors[3] + np.float32(0.1), gallery_of(vectors)
    ranking = rank(query, gallery, np.arange(1, 1500))
    every = rerank.get(name)(query, ranking, gallery)
    best = top_k(every.scores, k)
    hits = rerank_top(rerank.get(name), query, ranking, gallery, k)
    assert hits.numbers.tolist() == ranking.rows[best].tolist()
    np.testing.assert_allclose(hits.reported, every.reported(every.scores[best]), atol=1e-5)
    assert np.array_equal(hits.distances, ranking.distances[best])


@MEMBERS
def test_the_best_few_of_those_that_may_be_selected(name):
    """Sixty images that are far from the query; others have better scores."""
    vectors = vectors_of(1500)
    query, gallery = vectors[3], gallery_of(vectors)
    ranking = rank(query, gallery)
    far = np.sort(np.argsort(ranking.distances)[700:760])
    scores = rerank.get(name)(query, ranking, gallery).scores
    hits = rerank_top(rerank.get(name), query, ranking, gallery, 5, far)
    assert hits.numbers.tolist() == far[top_k(scores[far], 5)].tolist()


@MEMBERS
@pytest.mark.parametrize("kind", ["copies", "far from the origin"])
def test_the_best_few_are_the_first_of_all_where_many_are_alike(name, kind):
    vectors = vectors_of(1500)
    vectors = vectors[np.arange(1500) % 40] if kind == "copies" else 1.0 + vectors * np.float32(1e-3)
    query, gallery = vectors[3], gallery_of(vectors)
    ranking = rank(query, gallery)
    every = rerank.get(name)(query, ranking, gallery)
    hits = rerank_top(rerank.get(name), query, ranking, gallery, 5)
    assert hits.numbers.tolist() == top_k(every.scores, 5).tolist()


@MEMBERS
def test_arguments_are_left_as_they_are(name):
    vectors = vectors_of(300)
    gallery = gallery_of(vectors)
    query = vectors[0].copy()
    ranking = rank(query, gallery)
    before = [a.copy() for a in (query, vectors, ranking.rows, ranking.distances, ranking.similarities)]
    rerank.get(name)(query, ranking, gallery)
    after = [query, vectors, ranking.rows, ranking.distances, ranking.similarities]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@MEMBERS
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_very_small_and_very_large_vectors(name, scale):
    vectors = vectors_of(200) * np.float32(scale)
    assert np.isfinite(scores_of(name, vectors[0], vectors)).all()


@ALIKE
def test_equal_images_next_to_the_query_keep_the_order_of_their_rows(name):
    vectors = vectors_of(3000, 168)
    vectors[[5, 1000, 2999]] = vectors[5]
    scores = scores_of(name, vectors[5], vectors)
    assert top_k(scores, 3).tolist() == [5, 1000, 2999]


@ALIKE
@pytest.mark.parametrize("seed", range(6))
def test_equal_images_anywhere_are_in_the_order_of_their_rows(name, seed):
    vectors = vectors_of(700, 12, seed)
    vectors[[600, 350, 20]] = vectors[20]
    vectors[[500, 40]] = vectors[40]
    scores = scores_of(name, vectors[20] + np.float32(0.3), vectors)
    after = top_k(scores, 700).tolist()
    assert after.index(20) < after.index(350) < after.index(600)
    assert after.index(40) < after.index(500)


OF_THE_TOP = [
    name
    for name in rerank.names()
    if "M" in rerank.reranker_class(name).parameter_names() and rerank.get(name).depth
]


@pytest.mark.parametrize("name", OF_THE_TOP)
@pytest.mark.parametrize("n", [10, 30, 31, 900])
def test_images_below_the_re_ranked_top_keep_their_order(name, n):
    vectors = vectors_of(n)
    gallery = gallery_of(vectors)
    ranking = rank(vectors[1] + np.float32(0.2), gallery)
    reranked = rerank.get(name, M=30)(vectors[1] + np.float32(0.2), ranking, gallery)
    before, after = top_k(ranking.similarities, n), top_k(reranked.scores, n)
    assert reranked.scope == "top"
    assert set(after[:30]) == set(before[:30])
    assert np.array_equal(after[30:], before[30:])


@MEMBERS
def test_rows_that_were_filtered_out_change_nothing(name):
    vectors, rows = vectors_of(900), np.flatnonzero(np.random.default_rng(1).random(900) < 0.4)
    query = vectors[3] + np.float32(0.1)
    others = np.setdiff1d(np.arange(900), rows)
    changed = vectors.copy()
    changed[others] = query  # nearer than any image that is asked about
    assert np.array_equal(scores_of(name, query, vectors, rows), scores_of(name, query, changed, rows))


@MEMBERS
def test_the_images_of_the_querys_cluster_come_first(name):
    random = np.random.default_rng(4)
    centres = random.standard_normal((10, 20)) * 3
    kind = random.integers(0, 10, 2000)
    vectors = (centres[kind] + random.standard_normal((2000, 20))).astype(np.float32)
    scores = scores_of(name, centres[2].astype(np.float32), vectors)
    assert np.mean(kind[top_k(scores, 50)] == 2) == 1.0


@MEMBERS
def test_parameters_make_the_same_re_ranker_again(name):
    reranker = rerank.get(name)
    assert reranker.name == name
    assert rerank.get(name, **reranker.parameters) == reranker
    as_text = {key: str(value) for key, value in reranker.parameters.items()}
    assert rerank.get(name, **as_text).parameters == reranker.parameters


@MEMBERS
def test_parameters_cannot_change_under_a_query(name):
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        rerank.get(name).K = 3  # type: ignore[attr-defined]


@MEMBERS
def test_unknown_parameter(name):
    with pytest.raises(InvalidInput, match=f"{name} has no parameter 'depth'; it has"):
        rerank.get(name, depth=3)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(InvalidInput, match="'best'; there are: auto, none, diffusion, pearson, eprf, nsu"):
        rerank.get("best")


@pytest.mark.parametrize("name", ["eprf", "nsu-eprf", "svm-eprf"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"P": 0}, {"P": 1.5}, {"P": "six"}, {"P": True}, {"P": None}, {"P": float("nan")}, {"P": 10**400},
        {"T1": 0}, {"T2": -1}, {"K": 1001}, {"N": [3]}, {"seed": -1}, {"alpha": 1.01}, {"lowest": -0.1},
        {"C": 0}, {"C": float("inf")}, {"gamma": 0}, {"gamma": "nan"}, {"lam": -1},
    ],
)  # fmt: skip
def test_wrong_values_are_refused_with_their_range(name, wrong):
    (parameter,) = wrong
    with pytest.raises(InvalidInput, match=rf"{parameter} must be a (whole )?number from .* to "):
        rerank.get(name, **wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pc", {"M": 0}), ("pc", {"M": 1001}), ("pc", {"clusters": 1.5}), ("pc", {"weight": 1.1}),
        ("nprf", {"P": -1}), ("nprf", {"T": 0}), ("nprf", {"C": "much"}), ("nprf", {"gamma": float("nan")}),
        ("nprf", {"lowest": 2}), ("nprf", {"seed": -1}), ("k-reciprocal", {"M": 10**6}),
        ("k-reciprocal", {"k1": 0}), ("k-reciprocal", {"k2": True}), ("k-reciprocal", {"lam": -0.1}),
        ("aqe", {"P": 0}), ("aqe", {"alpha": float("inf")}), ("aqe", {"alpha": None}),
    ],
)  # fmt: skip
def test_wrong_values_of_the_others(name, wrong):
    (parameter,) = wrong
    with pytest.raises(InvalidInput, match=rf"{parameter} must be a (whole )?number from .* to "):
        rerank.get(name, **wrong)


@pytest.mark.parametrize("name", rerank.names())
def test_parameters_are_named_apart_from_the_arguments_of_cbir_rerank(name):
    assert not set(rerank.get(name).parameters) & set(inspect.signature(rerank_vectors).parameters)


def test_the_docstring_of_cbir_rerank_names_every_method():
    missing = [name for name in rerank.names() if f'"{name}"' not in str(rerank_vectors.__doc__)]
    assert missing == [], "cbir/rerank/ranked.py: the docstring of rerank_vectors lacks them"
