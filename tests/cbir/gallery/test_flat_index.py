"""FAISS over all vectors of a snapshot against comparing them one by one."""

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.gallery.flat_index import FEW, FlatIndex, one_search_thread
from cbir.gallery.gallery import fill_squared_distances
from tests.cbir.gallery.test_knn import clustered

VECTORS = clustered(3000)
FILTERS = {
    "all": None,
    "one left out": np.delete(np.arange(3000), 7),
    "many left out": np.flatnonzero(np.arange(3000) % (3000 // (2 * FEW))),
    "a third": np.arange(0, 3000, 3),
    "few": np.arange(0, 3000, 40),
    "none": np.arange(0),
}


def single(vectors: np.ndarray) -> FlatIndex:
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    return FlatIndex(index)


def nearest(query: np.ndarray, rows: np.ndarray | None, count: int) -> set[int]:
    rows = np.arange(len(VECTORS)) if rows is None else rows
    distances = np.linalg.norm(VECTORS[rows].astype(float) - query, axis=1)
    return set(rows[np.argsort(distances, kind="stable")[:count]].tolist())


@pytest.mark.parametrize("name", FILTERS)
def test_the_nearest_that_are_allowed_are_found_and_nothing_else(name: str) -> None:
    index, allowed = single(VECTORS), FILTERS[name]
    for query in clustered(10, seed=3):
        rows = index.nearest(query, 50, allowed)
        assert (np.diff(rows) > 0).all()
        assert allowed is None or np.isin(rows, allowed).all()
        assert nearest(query, allowed, 50) <= set(rows.tolist())
        assert len(rows) <= 50 + FEW


def test_more_than_there_are() -> None:
    index = single(VECTORS[:5])
    assert index.nearest(VECTORS[0], 100).tolist() == [0, 1, 2, 3, 4]
    assert index.nearest(VECTORS[0], 2, np.array([1, 3])).tolist() == [1, 3]


@given(count=st.integers(0, 40), dimensions=st.integers(1, 40), seed=st.integers(0, 100))
def test_squared_distances_are_those_of_float64(count: int, dimensions: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((count, dimensions)).astype(np.float32) + np.float32(100)
    query = random.standard_normal(dimensions).astype(np.float32) + np.float32(100)
    squared = np.full(count, -1, np.float32)
    fill_squared_distances(query, vectors, squared)
    expected = np.square(vectors.astype(float) - query).sum(axis=1)
    np.testing.assert_allclose(squared, expected, rtol=1e-5)
    if count:
        fill_squared_distances(vectors[0].copy(), vectors, squared)
        assert squared[0] == 0.0


def test_threads_are_as_before_after_a_search() -> None:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(3)
    try:
        with one_search_thread():
            assert faiss.omp_get_max_threads() == 1
        assert faiss.omp_get_max_threads() == 3
    finally:
        faiss.omp_set_num_threads(before)
