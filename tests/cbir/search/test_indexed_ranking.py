"""Searches by candidates of an index: with enough of them, the answers are those from all images."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cbir import rerank, settings
from cbir.search import Answer, Request, Searcher, Stopwatch
from cbir.store import Collection
from cbir.store import profile as profiles
from tests.benches import loaded
from tests.cbir.store.conftest import entry

ExactVectors = loaded("exact_vectors").ExactVectors
IMAGES = 120
SETTINGS = settings.load(device="cpu")

Search = Callable[..., Answer]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("indexed") / "collection"
    with Collection.create(folder, profiles.get("tamura")) as created:
        with created.writer() as writer:
            writer.add([entry(n, patient=f"p{n // 4}", labels={"label": "ab"[n % 2]}) for n in range(IMAGES)])
            writer.finish()
        yield created


@pytest.fixture(scope="module")
def ids(collection: Collection) -> list[str]:
    return [record.image_id for _, record in collection.iterate()]


def searcher_of(collection: Collection, candidates: int, vectors: Any = None, sample: int = 30) -> Searcher:
    """A searcher that uses its index however few images there are."""
    loaded_settings = SETTINGS.model_copy(update={"indexed_candidates": candidates, "indexed_sample": sample})
    searcher = Searcher(collection, loaded_settings, vectors or ExactVectors(collection))
    ranking = searcher._ranking
    ranking._current = lambda: ranking.indexed  # type: ignore[method-assign]
    return searcher


def ask(searcher: Searcher, ids: list[str], *examples: int, **given: Any) -> Answer:
    request = Request(examples=[ids[example] for example in examples], **given)
    return searcher.by_examples([], request, Stopwatch())


def assert_same(found: Answer, expected: Answer, rel: float = 1e-4) -> None:
    assert [hit.image_id for hit in found.results] == [hit.image_id for hit in expected.results]
    for name in ("score", "distance"):
        np.testing.assert_allclose(
            [getattr(hit, name) for hit in found.results],
            [getattr(hit, name) for hit in expected.results],
            rtol=rel,
            atol=1e-5,
        )
    assert found.rerank == expected.rerank
    assert found.agreement == expected.agreement
    assert found.query.likeness == pytest.approx(expected.query.likeness, abs=0.05)  # from other neighbours


REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "filter": {"where": ["label=a"]},
    "patient": {"exclude_patient": "p2"},
    "same patient": {"same_patient": True},
    "groups": {"group_by": "patient", "group_size": 2, "k": 5},
    "distance": {"max_distance": 10.0},
    "threshold": {"score_threshold": 0.2},
}


@pytest.mark.parametrize("method", ["auto", *rerank.names()])
@pytest.mark.parametrize("given", REQUESTS.values(), ids=REQUESTS)
def test_with_all_images_as_candidates_nothing_changes(collection, ids, method: str, given) -> None:
    whole, indexed = Searcher(collection, SETTINGS), searcher_of(collection, IMAGES)
    given = {"k": IMAGES, "rerank": method} | given
    for query in (0, 7):
        assert_same(ask(indexed, ids, query, **given), ask(whole, ids, query, **given))
