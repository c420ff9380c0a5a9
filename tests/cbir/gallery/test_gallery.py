import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.gallery import gallery as module
from cbir.gallery import vector_blocks
from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import CHUNK, positions_among

VECTORS = np.arange(60, dtype=np.float32).reshape(20, 3)
ROWS = st.lists(st.integers(0, 19), unique=True).map(sorted)
IN_A_ROW = st.tuples(st.integers(0, 19), st.integers(1, 20)).map(
    lambda ends: range(ends[0], min(sum(ends), 20))
)


def gallery(*cuts: int) -> Gallery:
    return Gallery(tuple(np.split(VECTORS, cuts)), np.arange(20, dtype=np.int64))


@given(
    cuts=st.lists(st.integers(0, 20), max_size=3).map(sorted),
    rows=ROWS | IN_A_ROW,
)
def test_chunks_of_named_rows_are_those_rows(cuts, rows):
    rows = np.array(rows, np.int64)
    found = np.full((len(rows), 3), -1, np.float32)
    for where, vectors in gallery(*cuts).chunks(rows):
        found[where] = vectors
    assert np.array_equal(found, VECTORS[rows])
    assert np.array_equal(gallery(*cuts).vectors(rows), VECTORS[rows])


@given(candidates=st.lists(st.integers(0, 25), max_size=8), rows=ROWS | IN_A_ROW)
def test_positions_are_those_of_the_candidates_that_are_there(candidates, rows):
    rows = [row + 3 for row in rows]
    positions, present = positions_among(np.array(candidates, np.int64), np.array(rows, np.int64))
    assert present.tolist() == [candidate in rows for candidate in candidates]
    assert positions.tolist() == [rows.index(candidate) for candidate in candidates if candidate in rows]


@pytest.mark.parametrize("cuts", [(), (0,), (7,), (7, 7, 19)])
def test_chunks_cover_every_row_once(cuts, monkeypatch):
    monkeypatch.setattr(vector_blocks, "CHUNK", 4)
    pieces = list(gallery(*cuts).chunks())
    assert [row for where, _ in pieces for row in range(where.start, where.stop)] == list(range(20))
    assert np.array_equal(np.concatenate([vectors for _, vectors in pieces]), VECTORS)


def test_rows_that_follow_each_other_are_not_copied():
    vectors = np.zeros((3 * CHUNK, 2), np.float32)
    whole = Gallery((vectors,), np.arange(len(vectors)))
    pieces = [piece for _, piece in whole.chunks(np.delete(np.arange(len(vectors)), CHUNK + 5))]
    assert [np.shares_memory(piece, vectors) for piece in pieces] == [True, False, True]


def test_squared_norms():
    np.testing.assert_allclose(gallery(5).squared_norms, (VECTORS**2).sum(axis=1))


def test_distances_of_a_large_gallery_match_the_obvious_form(monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_THREAD", 1000)  # so that threads share the work
    vectors = np.random.default_rng(0).standard_normal((5000, 9)).astype(np.float32)
    found = Gallery((vectors[:4000], vectors[4000:]), np.arange(5000)).distances(vectors[0] + 1)
    np.testing.assert_allclose(found, np.linalg.norm(vectors - vectors[0] - 1, axis=1), rtol=1e-5)
