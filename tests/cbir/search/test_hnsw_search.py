"""Searches with the setting index=hnsw: candidates come from a graph of FAISS."""

from pathlib import Path

import pytest

from cbir import rerank, settings
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection
from cbir.store.base import profile as profiles
from tests.cbir.store.conftest import entry

SETTINGS = settings.load(device="cpu", index="hnsw", indexed_candidates=30, indexed_sample=30)
IMAGES = 150


@pytest.fixture
def collection(tmp_path: Path):
    with Collection.create(tmp_path / "collection", profiles.get("tamura")) as created:
        with created.writer() as writer:
            writer.add([entry(n, patient=f"p{n // 4}", labels={"label": "ab"[n % 2]}) for n in range(IMAGES)])
            writer.finish()
        yield created


def found(searcher: Searcher, image_id: str, **given) -> list[str]:
    answer = searcher.by_id(image_id, Request(**given), Stopwatch())
    return [hit.image_id for hit in answer.results]


@pytest.mark.parametrize("method", rerank.names())
def test_the_first_answers_are_those_from_all_images(collection: Collection, method: str) -> None:
    ids = [record.image_id for _, record in collection.iterate()]
    searcher, whole = Searcher(collection, SETTINGS), Searcher(collection, settings.load(device="cpu"))
    assert searcher.vector_index is not None
    searcher.vector_index.follower.follow()
    collection.view = None  # type: ignore[assignment,method-assign]  # no search may load all vectors
    answers = [found(searcher, each, k=10, rerank=method) for each in ids[:10]]
    del collection.view
    expected = [found(whole, each, k=10, rerank=method) for each in ids[:10]]
    shared = sum(len(set(one) & set(other)) for one, other in zip(answers, expected, strict=True))
    assert shared >= (95 if method in ("none", "pearson") else 60)
    assert answers == [found(Searcher(collection, SETTINGS), each, k=10, rerank=method) for each in ids[:10]]


def test_images_added_and_deleted_since_count_at_once(collection: Collection) -> None:
    ids = [record.image_id for _, record in collection.iterate()]
    searcher = Searcher(collection, SETTINGS)
    assert searcher.vector_index is not None
    searcher.vector_index.follower.follow()
    first = found(searcher, ids[0], k=3, rerank="none")
    record, _ = entry(900, labels={"label": "new"})
    with collection.writer() as writer:
        writer.delete(first[:1])
        writer.add([(record, collection.vector(ids[0]))])
    after = found(searcher, ids[0], k=3, rerank="none")
    assert first[0] not in after
    assert after[1:] == first[1:]
    assert after[0] == found(searcher, ids[0], k=1, rerank="none", where=["label=new"])[0]
    assert after == found(Searcher(collection, settings.load(device="cpu")), ids[0], k=3, rerank="none")


def test_before_the_index_is_built_all_images_are_compared(collection: Collection) -> None:
    image_id = next(iter(collection.iterate()))[1].image_id
    answer = Searcher(collection, SETTINGS).by_id(image_id, Request(k=3), Stopwatch())
    assert len(answer.results) == 3
    assert any("All images were compared" in note for note in answer.rerank.notes)
