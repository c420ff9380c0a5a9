"""Images with equal vectors are side by side in every answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cbir
from cbir import rerank
from cbir.gallery.gallery import Gallery, rank
from cbir.rerank.ranked import order_with_copies, select_top
from cbir.rerank.reranker import Reranked
from cbir.rerank.simple_rerankers import NoReranking


def twice(count: int, dimensions: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors of length 1, each twice and far apart, and the number of each."""
    random = np.random.default_rng(count)
    vectors = random.normal(size=(count, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    number = random.permutation(np.repeat(np.arange(count), 2))
    return vectors[number], number


@pytest.mark.parametrize("method", ["auto", *rerank.names()])
@pytest.mark.parametrize("k", [None, 25])
def test_copies_are_adjacent(method: str, k: int | None) -> None:
    vectors, number = twice(150)
    parameters = {"local": 40} if "diffusion" in method else {}
    query = vectors[:1] + np.float32(0.01)
    found = cbir.rerank(query, vectors, method, k=k, **parameters)
    order, scores = number[found.indices[0]], found.scores[0]
    changes = np.flatnonzero(np.diff(order)) + 1
    runs = np.split(order, changes)
    assert len(runs) == len(np.unique(order))
    assert all(len(run) == 2 for run in runs[:-1])
    assert (np.diff(scores) <= 0).all()
    assert all(len(set(part)) == 1 for part in np.split(scores, changes))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=20), st.integers(1, 20))
def test_order_as_by_one_group_after_another(images: list[tuple[int, int]], k: int) -> None:
    """The slow form: groups of equal vectors by their best score and first row, then by row."""
    content, scores = np.array(images).T
    vectors = np.eye(6, dtype=np.float32)[content]
    gallery = Gallery((vectors,), np.arange(len(images)))
    distances = gallery.distances(np.zeros(6, np.float32))  # all equal: vectors decide
    places, raised = order_with_copies(
        scores.astype(np.float32), np.arange(len(images)), distances, gallery, k
    )
    groups = [np.flatnonzero(content == value) for value in np.unique(content)]
    groups.sort(key=lambda rows: (-scores[rows].max(), rows[0]))
    assert places.tolist() == np.concatenate(groups)[:k].tolist()
    assert raised.tolist() == [scores[content == content[place]].max() for place in places]


def test_judged_images_keep_their_places() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0]], np.float32)
    gallery = Gallery((vectors,), np.arange(3))
    ranking = rank(np.zeros(2, np.float32), gallery)
    scored = (ranking.rows, Reranked(np.array([3, 2, 1], np.float32)))
    judged = np.array([2])
    assert select_top(NoReranking(), scored, ranking, gallery, 3).numbers.tolist() == [0, 2, 1]
    assert select_top(NoReranking(), scored, ranking, gallery, 3, judged=judged).numbers.tolist() == [0, 1, 2]


def test_a_copy_that_may_not_be_selected_lends_no_score() -> None:
    gallery = Gallery((np.array([[1, 0], [0, 1], [1, 0]], np.float32),), np.arange(3))
    ranking = rank(np.zeros(2, np.float32), gallery)
    scored = (ranking.rows, Reranked(np.array([3, 2, 1], np.float32)))
    selected = select_top(NoReranking(), scored, ranking, gallery, 3, hits=np.array([1, 2]))
    assert selected.numbers.tolist() == [1, 2]  # [2, 1] with the score of the copy in row 0
    assert selected.scores.tolist() == [2, 1]
