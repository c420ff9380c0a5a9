"""Inverted lists: stored rows in blocks, recall, growth, and searches with filters and after deletions."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cbir.store.index import faiss_lists
from cbir.store.index.faiss_lists import FaissLists, StoredRows
from cbir.store.index.port import Numbers
from tests.cbir.store.index.subjects import DIMENSIONS, make_vectors

COUNT = 5000
VECTORS = make_vectors(COUNT)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_lists, "FEW", 50)
    monkeypatch.setattr(faiss_lists, "BLOCK", 700)


@pytest.fixture
def filled() -> FaissLists:
    """5000 images in 70 lists, of which a search reads 12. Number n has row n - 1."""
    made = FaissLists(DIMENSIONS, probes=12)
    for start in range(0, COUNT, 900):
        part = VECTORS[start : start + 900]
        made.put(np.arange(start + 1, start + 1 + len(part)), part)
    made.finish()
    return made


def exact(query: NDArray[np.float32], numbers: Numbers, k: int) -> Numbers:
    distances = np.linalg.norm(VECTORS[numbers - 1] - query, axis=1)
    return numbers[np.argsort(distances, kind="stable")[:k]]


def recall(lists: FaissLists, numbers: Numbers, scope: Numbers | None) -> float:
    shares = []
    for query in make_vectors(20, seed=1):
        (found,) = lists.nearest(query[None, :], 40, scope)
        assert len(found.numbers) == 40
        assert np.isin(found.numbers, numbers).all()
        np.testing.assert_allclose(
            found.distances, np.linalg.norm(VECTORS[found.numbers - 1] - query, axis=1), rtol=1e-4
        )
        assert (np.diff(found.distances) >= 0).all()
        shares.append(len(np.intersect1d(found.numbers, exact(query, numbers, 40))) / 40)
    return float(np.mean(shares))


def test_recall_with_and_without_a_filter(filled: FaissLists) -> None:
    everything = np.arange(1, COUNT + 1)
    assert recall(filled, everything, None) > 0.95
    third = everything[::3]
    assert recall(filled, third, third) > 0.95


def test_after_most_were_deleted_and_others_added(filled: FaissLists) -> None:
    deleted = np.arange(1, COUNT + 1)[np.arange(COUNT) % 4 != 0]
    filled.delete(deleted)
    remaining = np.setdiff1d(np.arange(1, COUNT + 1), deleted)
    assert recall(filled, remaining, None) > 0.95
    assert recall(filled, remaining[::2], remaining[::2]) > 0.95
    assert not filled.values(deleted - 1).any()
    filled.put(deleted, VECTORS[deleted - 1])
    assert recall(filled, np.arange(1, COUNT + 1), None) > 0.95


def test_lists_are_made_anew_when_there_are_many_more_images() -> None:
    lists = FaissLists(DIMENSIONS)
    lists.put(np.arange(1, 101), VECTORS[:100])
    lists.finish()
    made = lists._lists
    assert made is not None
    lists.put(np.arange(101, 301), VECTORS[100:300])
    lists.finish()
    assert lists._lists is made
    lists.put(np.arange(301, COUNT + 1), VECTORS[300:])
    lists.finish()
    assert lists._lists is not None
    assert (made.index.nlist, lists._lists.index.nlist) == (10, 70)
    assert recall(lists, np.arange(1, COUNT + 1), None) > 0.95


def test_rows_of_a_file_and_of_memory() -> None:
    mapped, later = VECTORS[:1000].copy(), VECTORS[1000:3000]
    rows = StoredRows(DIMENSIONS, mapped)
    for start in range(0, 2000, 333):
        rows.append(later[start : start + 333])
    assert len(rows) == 3000
    some = np.random.default_rng(0).integers(0, 3000, 500)
    np.testing.assert_array_equal(rows.read(some), VECTORS[some])
    rows.clear(np.array([5, 999, 1000, 2999]))
    assert not rows.read(np.array([5, 999, 1000, 2999])).any()
    np.testing.assert_array_equal(rows.read(np.array([6, 1001])), VECTORS[[6, 1001]])
    rows.use(VECTORS[:3000])
    np.testing.assert_array_equal(rows.read(some), VECTORS[some])
    assert rows.read(np.empty(0, np.int64)).shape == (0, DIMENSIONS)
