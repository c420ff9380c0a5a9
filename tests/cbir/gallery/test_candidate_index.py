"""Inverted lists of bytes against comparing all vectors."""

import numpy as np
import pytest

from cbir.store.index.faiss_lists import FEW_VISITS, CandidateIndex, sample_rows, train_candidate_index
from tests.cbir.gallery.test_knn import clustered

VECTORS = clustered(4800)


def build(vectors: np.ndarray) -> CandidateIndex:
    made = train_candidate_index(vectors[sample_rows(len(vectors))], len(vectors))
    made.index.add(vectors)
    return made


@pytest.fixture(scope="module")
def index() -> CandidateIndex:
    return build(VECTORS)


def nearest(query: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    distances = np.linalg.norm(VECTORS[rows] - query, axis=1)
    return rows[np.argsort(distances, kind="stable")[:count]]


FILTERS = {
    "all": None,
    "one left out": np.delete(np.arange(4800), 7),
    "many left out": np.flatnonzero(np.arange(4800) % (4800 // (2 * FEW_VISITS))),
    "a third": np.arange(0, 4800, 3),
    "few": np.arange(0, 4800, 40),
}


@pytest.mark.parametrize("name", FILTERS)
def test_nearly_all_of_the_nearest_are_found_and_nothing_else(index: CandidateIndex, name: str) -> None:
    allowed, hits = FILTERS[name], []
    for query in clustered(20, seed=3):
        rows = index.nearest(query, 50, 20, allowed)
        assert (np.diff(rows) > 0).all()
        assert len(rows) < 400
        assert allowed is None or np.isin(rows, allowed).all()
        best = nearest(query, np.arange(4800) if allowed is None else allowed, 50)
        hits.append(len(np.intersect1d(rows, best)) / 50)
    assert np.mean(hits) > 0.95


def test_more_lists_are_read_where_a_filter_leaves_little(index: CandidateIndex) -> None:
    allowed = np.arange(0, 4800, 400)
    for query in clustered(5, seed=6):
        assert index.nearest(query, 12, 1, allowed).tolist() == allowed.tolist()
        assert len(index.nearest(query, 12, 1)) >= 12
    assert not len(index.nearest(query, 5, 1, allowed[:0]))


def test_equal_vectors_give_an_equal_index(index: CandidateIndex) -> None:
    again = build(VECTORS)
    for query in clustered(5, seed=7):
        first, second = (each.nearest(query, 100, 4) for each in (index, again))
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("count", [1, 2, 40])
def test_hardly_any_images(count: int) -> None:
    vectors = clustered(count)
    assert build(vectors).nearest(vectors[0], 100, 1).tolist() == list(range(count))


def test_images_all_alike() -> None:
    assert len(build(np.ones((500, 10), np.float32)).nearest(np.ones(10, np.float32), 20, 1)) >= 20
