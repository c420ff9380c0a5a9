"""Search by codes of four bits against comparing all vectors."""

import faiss
import numpy as np
import pytest

from cbir.gallery import code_index
from cbir.gallery.code_index import CodeIndex, build_codes, fit_levels
from cbir.gallery.flat_index import FEW, FlatIndex
from cbir.gallery.vector_blocks import Rows
from tests.cbir.gallery.test_knn import clustered

COUNT = 30_000
DIMENSIONS = 12
VECTORS = clustered(COUNT, DIMENSIONS)
QUERIES = VECTORS[::6000] + np.random.default_rng(1).normal(0, 0.1, (5, DIMENSIONS)).astype(np.float32)
FILTERS = {
    "all": None,
    "one left out": np.delete(np.arange(COUNT), 7),
    "many left out": np.arange(2 * FEW, COUNT),
    "a third": np.arange(0, COUNT, 3),
    "few": np.arange(0, COUNT, 400),
    "none": np.arange(0),
}


def coded(vectors: np.ndarray) -> CodeIndex:
    flat = faiss.IndexFlatL2(vectors.shape[1])
    flat.add(vectors)
    return CodeIndex(flat, vectors, build_codes(vectors))


@pytest.fixture(scope="module")
def index() -> CodeIndex:
    return coded(VECTORS)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts for which vectors were compared in place of codes."""
    counts: list[int] = []
    search = FlatIndex.nearest

    def note(self: FlatIndex, query: np.ndarray, count: int, allowed: np.ndarray | None = None) -> np.ndarray:
        counts.append(count)
        return search(self, query, count, allowed)

    monkeypatch.setattr(FlatIndex, "nearest", note)
    return counts


def nearest(vectors: np.ndarray, query: np.ndarray, rows: np.ndarray | None, count: int) -> set[int]:
    rows = np.arange(len(vectors)) if rows is None else rows
    distances = np.linalg.norm(vectors[rows].astype(float) - query, axis=1)
    return set(rows[np.argsort(distances, kind="stable")[:count]].tolist())


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("count", [1, 50, 800])
def test_the_nearest_that_are_allowed_are_found_and_nothing_else(
    index: CodeIndex, name: str, count: int
) -> None:
    allowed = FILTERS[name]
    for query in (*QUERIES, clustered(1, DIMENSIONS, seed=3)[0]):  # the last is far from all
        rows = index.nearest(query, count, allowed)
        assert (np.diff(rows) > 0).all()
        assert allowed is None or np.isin(rows, allowed).all()
        assert nearest(VECTORS, query, allowed, min(count, 100)) <= set(rows.tolist())
        assert len(nearest(VECTORS, query, allowed, count) - set(rows.tolist())) <= count / 500


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["two looks", "one look"])
@pytest.mark.parametrize("name", [name for name in FILTERS if name != "none"])
@pytest.mark.parametrize("hidden", [0, 500])
def test_both_the_allowed_and_all_that_are_visible_are_found(
    index: CodeIndex, monkeypatch: pytest.MonkeyPatch, name: str, share: float, hidden: int
) -> None:
    monkeypatch.setattr(code_index, "ONE_LOOK", share)
    visible = np.arange(hidden, COUNT) if hidden else None
    allowed = FILTERS[name]
    if hidden:
        allowed = visible if allowed is None else allowed[allowed >= hidden]
    for query in QUERIES:
        inside, around = index.nearest_both(query, 60, allowed, 40, visible)
        for rows, count, of in ((inside, 60, allowed), (around, 40, visible)):
            assert (np.diff(rows) > 0).all()
            assert of is None or np.isin(rows, of).all()
            assert nearest(VECTORS, query, of, count) <= set(rows.tolist())


@pytest.mark.parametrize("visible", [np.arange(0), np.arange(COUNT)])
def test_nothing_is_found_where_nothing_is_visible_or_allowed(index: CodeIndex, visible: Rows) -> None:
    inside, around = index.nearest_both(QUERIES[0], 5, np.arange(0), 3, visible)
    assert inside.tolist() == []
    assert len(around) >= min(3, len(visible))


def test_one_look_finds_both_where_a_filter_is_wide(
    index: CodeIndex, compared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, fetch = [], CodeIndex._fetch
    monkeypatch.setattr(CodeIndex, "_fetch", lambda *given: looks.append(given[2]) or fetch(*given))
    monkeypatch.setattr(code_index, "ONE_LOOK", 1.0)
    for query in QUERIES:
        for rows in index.nearest_both(query, 60, FILTERS["a third"], 40, None):
            assert len(rows) < COUNT / 10
    assert len(looks) == len(QUERIES)
    assert compared == []


def test_codes_are_read_in_place_of_vectors_and_leave_few(index: CodeIndex, compared: list[int]) -> None:
    assert index.codes.sa_code_size() == VECTORS.shape[1] / 2
    for query in QUERIES:
        assert len(index.nearest(query, 50)) < COUNT / 10
    assert compared == []


def test_more_are_fetched_where_the_first_are_too_few(
    index: CodeIndex, compared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_index, "FETCHED", 1)
    monkeypatch.setattr(code_index, "LEAST", 1)
    monkeypatch.setattr(code_index, "BESIDE", 0)
    for query in QUERIES:
        assert nearest(VECTORS, query, None, 60) <= set(index.nearest(query, 60).tolist())
    assert compared == []


def test_vectors_that_codes_do_not_tell_apart_are_compared(compared: list[int]) -> None:
    vectors = clustered(COUNT, 8)
    vectors[: COUNT // 2] = vectors[0] + np.random.default_rng(1).normal(0, 1e-4, (COUNT // 2, 8))
    index, query = coded(vectors), vectors[0].copy()
    assert nearest(vectors, query, None, 20) <= set(index.nearest(query, 20).tolist())
    assert compared == [20]


@pytest.mark.parametrize(("copies", "count"), [(2000, 50), (300, 20)])
def test_copies_of_a_vector_do_not_hide_what_is_nearer(copies: int, count: int) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(COUNT, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    query = vectors[0].copy()
    directions = rng.normal(size=(16, 64)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    vectors[1:16] = query + 0.49 * directions[1:]
    vectors[16 : 16 + copies] = query + 0.5 * directions[0]
    found = coded(vectors).nearest(query, count)
    assert nearest(vectors, query, None, 16) <= set(found.tolist())


def test_a_value_much_larger_than_the_others_does_no_harm() -> None:
    vectors = clustered(COUNT, DIMENSIONS)
    vectors[:, 0] *= 100
    index = coded(vectors)
    for query in QUERIES * np.array([100] + [1] * (DIMENSIONS - 1), np.float32):
        assert nearest(vectors, query, None, 50) <= set(index.nearest(query, 50).tolist())


def test_fewer_vectors_than_codes_and_more_asked_than_there_are() -> None:
    index = coded(VECTORS[:5])
    assert index.nearest(VECTORS[0], 100).tolist() == [0, 1, 2, 3, 4]
    assert index.nearest(VECTORS[0], 2, np.array([1, 3])).tolist() == [1, 3]
    assert 0 in index.nearest(VECTORS[0], 1)


def rounded(values: np.ndarray, levels: np.ndarray) -> float:
    """Mean squared error of values (n,) that are rounded to levels (16,)."""
    return float(np.square(values[:, None] - levels).min(axis=1).mean())


def test_levels_of_normal_values_round_with_the_least_error() -> None:
    normal = np.random.default_rng(0).normal(5, 2, 5000)
    levels = fit_levels(normal.astype(np.float32)[:, None])[0]
    assert rounded(normal, levels) / normal.var() == pytest.approx(0.009497, rel=0.1)  # J. Max, 1960


@pytest.mark.parametrize("largest", [1, 100])
def test_levels_round_as_well_as_those_of_faiss(largest: float) -> None:
    values = clustered(5000, DIMENSIONS)
    values[:, 0] *= largest
    rotation = faiss.RandomRotationMatrix(DIMENSIONS, DIMENSIONS)
    rotation.init(0)
    values = rotation.apply(values)
    ours = theirs = 0.0
    for column, levels in zip(values.T, fit_levels(values), strict=True):
        means = faiss.Kmeans(1, 16, seed=1, max_points_per_centroid=5000)
        means.train(np.ascontiguousarray(column[:, None]))
        ours, theirs = ours + rounded(column, levels), theirs + rounded(column, means.centroids[:, 0])
    assert ours < 1.02 * theirs


def test_levels_of_few_values_are_these() -> None:
    few = np.repeat(np.arange(4, dtype=np.float32), 100)
    levels = fit_levels(np.column_stack([few, np.full(400, 7, np.float32)]))
    assert rounded(few, levels[0]) < 1e-6
    assert (levels[1] == 7).all()


def test_the_same_vectors_have_the_same_codes() -> None:
    first, second = (faiss.serialize_index(build_codes(VECTORS)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
