"""Late interaction, against a version that loops over queries, groups and vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.errors import QueryCancelled
from cbir.gallery.vector_blocks import VectorBlocks
from cbir.search import slice_matching as module
from cbir.search.slice_matching import best_matches, max_similarity
from cbir.system.threads import time_limit

D = 3


def plain(queries: np.ndarray, vectors: np.ndarray, groups: np.ndarray, scale: float) -> list[float]:
    """Mean over the queries of the largest similarity in each group, term by term."""
    scores = []
    for group in range(int(groups.max()) + 1):
        total = 0.0
        for query in queries:
            best = -np.inf
            for vector, own in zip(vectors, groups, strict=True):
                if own == group:
                    squared = sum((float(a) - float(b)) ** 2 for a, b in zip(query, vector, strict=True))
                    best = max(best, 1.0 - squared / (2.0 * scale))
            total += best
        scores.append(total / len(queries))
    return scores


def dense(groups: list[int]) -> np.ndarray:
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def matrix(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, D)).astype(np.float32)


def scores_of(queries: np.ndarray, vectors: np.ndarray, groups: np.ndarray, scale: float = 2.0) -> np.ndarray:
    return max_similarity(queries, VectorBlocks((vectors,)), np.arange(len(vectors)), groups, scale)


members = st.lists(st.integers(0, 4), min_size=1, max_size=30)
seeds = st.integers(0, 1000)


@pytest.fixture(params=[1, 3, 2048])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows at a time: groups are cut, end with a piece, or lie within one."""
    monkeypatch.setattr(module, "CHUNK", request.param)
    return int(request.param)


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("seed", range(6))
def test_as_the_plain_version(seed: int) -> None:
    random = np.random.default_rng(seed)
    groups = dense(random.integers(0, 5, random.integers(1, 30)).tolist())
    queries, vectors = matrix(int(random.integers(1, 5)), seed + 100), matrix(len(groups), seed + 200)
    np.testing.assert_allclose(
        scores_of(queries, vectors, groups, 1.7), plain(queries, vectors, groups, 1.7), atol=2e-9
    )


@pytest.mark.usefixtures("chunk")
def test_the_best_matches_are_those_of_the_plain_version() -> None:
    queries, vectors = matrix(4, 1), matrix(9, 2)
    vectors[7] = vectors[2]
    rows = np.array([2, 3, 5, 7, 8])
    best, similarities = best_matches(queries, VectorBlocks((vectors[:4], vectors[4:])), rows, 2.0)
    for query, row, similarity in zip(queries, best, similarities, strict=True):
        distances = [float(((vectors[each] - query) ** 2).sum()) for each in rows]
        assert row == rows[int(np.argmin(distances))]  # the first of two equal ones
        assert similarity == pytest.approx(1 - min(distances) / 4, abs=1e-6)


def test_scores_are_the_means_of_the_best_matches() -> None:
    queries, vectors, groups = matrix(4, 1), matrix(20, 2), dense([n % 3 for n in range(20)])
    scores = scores_of(queries, vectors, groups)
    for group in range(3):
        rows = np.flatnonzero(groups == group)
        _, similarities = best_matches(queries, VectorBlocks((vectors,)), rows, 2.0)
        assert scores[group] == pytest.approx(similarities.mean(), abs=2e-9)


@given(members, seeds)
def test_the_order_of_slices_does_not_matter(groups: list[int], seed: int) -> None:
    queries, vectors = matrix(3, seed), matrix(len(groups), seed + 1)
    order = np.random.default_rng(seed).permutation(len(groups))
    turned = np.random.default_rng(seed + 1).permutation(3)
    np.testing.assert_allclose(
        scores_of(queries, vectors, dense(groups)),
        scores_of(queries[turned], vectors[order], dense(groups)[order]),
        rtol=0,
        atol=2e-9,
    )


@given(members, seeds)
def test_a_series_that_holds_the_slices_of_the_query_gets_one(groups: list[int], seed: int) -> None:
    queries, vectors = matrix(3, seed) * 100, matrix(len(groups), seed + 1)
    scores = scores_of(queries, np.concatenate([vectors, queries]), dense([*groups, 9, 9, 9]), 3e4)
    assert scores[-1] == 1.0
    assert (scores[:-1] < 1.0).all()


@given(members, seeds, st.integers(1, 5))
def test_further_slices_never_lower_a_score(groups: list[int], seed: int, more: int) -> None:
    queries, vectors, added = matrix(3, seed), matrix(len(groups), seed + 1), matrix(more, seed + 2)
    before = scores_of(queries, vectors, dense(groups))
    after = scores_of(
        queries, np.concatenate([vectors, added]), np.append(dense(groups), [0] * more).astype(np.int64)
    )
    assert (after >= before - 2e-9).all()
    np.testing.assert_allclose(after[1:], before[1:], rtol=0, atol=2e-9)


def test_similarities_of_unit_vectors_are_cosines() -> None:
    vectors = matrix(6, 3)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = scores_of(vectors[:1], vectors, np.arange(6), 1.0)
    np.testing.assert_allclose(scores, vectors @ vectors[0], atol=1e-6)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_zero_vectors_are_equal(scale: float) -> None:
    zeros = np.zeros((4, D), np.float32)
    assert scores_of(zeros[:2], zeros, dense([0, 0, 1, 2]), scale).tolist() == [1.0] * 3


def test_a_single_slice_on_both_sides() -> None:
    first, second = matrix(1, 1), matrix(1, 2)
    expected = 1 - float(((first - second) ** 2).sum()) / 4
    assert scores_of(first, second, np.zeros(1, np.int64)) == pytest.approx([expected], abs=1e-6)


def test_a_deadline_cancels_it() -> None:
    vectors = matrix(5000, 1)
    with time_limit(1e-9), pytest.raises(QueryCancelled):
        scores_of(vectors[:2], vectors, np.arange(5000) // 100)
