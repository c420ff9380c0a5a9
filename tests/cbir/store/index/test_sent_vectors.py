"""Vectors that an index sends with its answers are those that a search goes on with."""

from dataclasses import replace

import numpy as np
import pytest

from cbir.gallery.vector_blocks import Floats
from cbir.store.index.faiss_index import FaissIndex
from cbir.store.index.indexed_vectors import SentVectors
from cbir.store.index.port import IndexScope, Neighbours, Numbers
from tests.cbir.store.index.followed import DIMENSIONS, Followed, make_entries

QUERIES = np.random.default_rng(0).normal(0, 1, (2, DIMENSIONS)).astype(np.float32)


@pytest.fixture
def sending(hnsw: Followed, monkeypatch: pytest.MonkeyPatch) -> Followed:
    """A collection of 100 images whose index sends vectors with its answers, and reads none by number."""
    hnsw.filled(100)
    index = hnsw.index.current.opened().index
    nearest, vectors = index.nearest, index.vectors

    def with_vectors(queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        return [_with_vectors(answer, *vectors(answer.numbers)) for answer in nearest(queries, k, scope)]

    monkeypatch.setattr(index, "nearest", with_vectors)
    monkeypatch.setattr(FaissIndex, "serves_vectors", False)
    return hnsw


@pytest.fixture
def read(sending: Followed, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the images whose vectors are read from the collection."""
    feed, numbers_read = sending.collection.index_feed().__class__, list[int]()
    from_collection = feed.vectors

    def listed(self: object, numbers: Numbers) -> tuple[Numbers, Floats]:
        numbers_read.extend(numbers.tolist())
        return from_collection(self, numbers)  # type: ignore[arg-type]

    monkeypatch.setattr(feed, "vectors", listed)
    return numbers_read


def _with_vectors(answer: Neighbours, numbers: Numbers, vectors: Floats) -> Neighbours:
    return answer._replace(vectors=vectors[np.searchsorted(numbers, answer.numbers)])


def test_search_reads_no_vector_that_the_index_has_sent(sending: Followed, read: list[int]) -> None:
    search = sending.index.vectors.for_search()
    found = np.concatenate([answer.numbers for answer in search.nearest(QUERIES, 10)])
    asked = np.append(found, [77, 999])
    numbers, vectors = search.vectors(asked)
    assert numbers.tolist() == sorted({*found.tolist(), 77})
    assert set(read) == {77, 999} - set(found.tolist())
    expected = search.statistics.normalise(sending.collection.raw_vectors(numbers))
    np.testing.assert_array_equal(vectors, expected)


def test_another_search_reads_them(sending: Followed, read: list[int]) -> None:
    (answer,) = sending.index.vectors.for_search().nearest(QUERIES[:1], 10)
    sending.index.vectors.for_search().vectors(answer.numbers)
    sending.index.vectors.vectors(answer.numbers)
    assert read == 2 * sorted(answer.numbers.tolist())


def test_images_that_the_index_lacks_are_read(sending: Followed) -> None:
    with sending.collection.writer() as writer:
        writer.add(make_entries(100, 110))
        writer.delete(sending.ids()[:5])
    search = sending.index.vectors.for_search()
    (answer,) = search.nearest(QUERIES[:1], 200)
    assert sorted(answer.numbers.tolist()) == list(range(6, 111))
    numbers, vectors = search.vectors(np.arange(1, 120))
    assert numbers.tolist() == list(range(6, 111))
    np.testing.assert_array_equal(
        vectors, search.statistics.normalise(sending.collection.raw_vectors(numbers))
    )


def test_vectors_of_several_answers_and_of_one_edition(hnsw: Followed) -> None:
    edition = hnsw.filled(10).index.current.opened()
    found, vectors = SentVectors(), np.arange(5 * DIMENSIONS, dtype=np.float32).reshape(5, DIMENSIONS)
    distances = np.zeros(3, np.float32)
    first = Neighbours(np.array([9, 2, 5]), distances, vectors[[4, 1, 2]])
    second = Neighbours(np.array([5, 3]), distances[:2], vectors[[2, 3]])
    nothing = Neighbours(np.empty(0, np.int64), distances[:0])
    for answers in ([first, second], [nothing], [Neighbours(np.array([1]), distances[:1], vectors[:1])]):
        found.keep(edition, answers)
    numbers, kept = found.among(edition, np.array([1, 2, 4, 5, 9]))
    assert numbers.tolist() == [1, 2, 5, 9]
    np.testing.assert_array_equal(kept, vectors[[0, 1, 2, 4]])
    other = replace(edition, name="another")
    assert found.among(other, np.array([1, 2]))[1].shape == (0, DIMENSIONS)
    found.keep(other, [second])
    assert not len(found.among(edition, np.array([1, 2]))[0])
