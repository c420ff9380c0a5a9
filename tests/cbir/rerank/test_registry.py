"""A re-ranker that is only added to the registry is found by everything that lists re-rankers."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from cbir import rerank, settings
from cbir.errors import InvalidInput
from cbir.evaluation.runs import parse_methods
from cbir.gallery.gallery import Gallery, RankingList, top_k
from cbir.rerank import reranker_class
from cbir.rerank.reranker import Grid, Reranked, Reranker, parameter
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection
from cbir.store.base import profile as profiles
from service.app import create_app
from tests.cbir.search.drawn_vectors import entry
from tests.service.conftest import page_facts


@dataclass(frozen=True, kw_only=True)
class Reversal(Reranker):
    """Reverses the order of the top candidates."""

    name = "reversal"
    title = "Back to front"
    description = "Reverses the order of the first answers."
    grid: ClassVar[Grid] = {"count": (2, 4)}

    count: int = parameter(3, 1, 50, "candidates to reverse")

    @property
    def depth(self) -> int:
        return self.count

    def __call__(self, query: np.ndarray, ranking: RankingList, gallery: Gallery) -> Reranked:
        positions = top_k(ranking.similarities, self.count)
        scores = ranking.similarities.astype(np.float64)
        scores[positions] = 2.0 + np.arange(len(positions))
        return Reranked(scores, scope="top")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(rerank, "RERANKERS", (*rerank.RERANKERS, Reversal))


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Collection:
    created = Collection.create(tmp_path_factory.mktemp("toy") / "collection", profiles.get("tamura"))
    vectors = np.random.default_rng(0).standard_normal((30, 6)).astype(np.float32)
    with created.writer() as writer:
        writer.add([entry(created, number, vectors[number]) for number in range(30)])
        writer.finish()
    return created


def test_names_parameters_and_bounds():
    assert rerank.names()[-1] == "reversal"
    assert reranker_class("reversal").parameter_names() == ("count",)
    assert rerank.get("reversal", count="7").parameters == {"count": 7}
    with pytest.raises(InvalidInput, match="count must be a whole number from 1 to 50, not 51"):
        rerank.get("reversal", count=51)
    with pytest.raises(InvalidInput, match=r"auto, .*, reversal"):
        rerank.get("unknown")


def test_search_in_all_images_and_in_the_nearest(collection):
    searcher = Searcher(collection, settings.load(device="cpu"))
    image_id = collection.page(0, 3)[2][1].image_id
    plain, reversed_ = (
        [hit.image_id for hit in searcher.by_id(image_id, Request(rerank=name), Stopwatch()).results]
        for name in ("none", "reversal")
    )
    assert reversed_ == plain[2::-1] + plain[3:]
    few = Searcher(collection, settings.load(device="cpu", indexed_candidates=5, indexed_sample=5))
    by_index = few.by_id(image_id, Request(rerank="reversal"), Stopwatch())
    assert [hit.image_id for hit in by_index.results] == reversed_
    assert "by an index" in by_index.rerank.scope


def test_grid_of_the_evaluation():
    assert [method.name for method in parse_methods("all")] == list(rerank.names())
    points = reranker_class("reversal").tuning_points()
    assert points == [{"count": 3}, {"count": 2}, {"count": 4}]  # the default first


def test_choice_of_the_search_page(collection):
    choice = page_facts(create_app(str(collection.folder), settings.load()).test_client())["rerankers"][-1]
    assert choice["name"] == "reversal"
    assert choice["title"] == "Back to front"
    assert choice["description"] == "Reverses the order of the first answers."
    assert choice["defaults"] == {"count": 3}
