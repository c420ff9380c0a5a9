"""Searches in the nearest images and a sample: with enough of them, the answers are those from all images."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cbir import rerank, settings
from cbir.errors import IndexUnavailable, InvalidInput
from cbir.gallery.gallery import Gallery, rank
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import build_graph
from cbir.gallery.numbered_graph import NumberedGraph, number_graph
from cbir.rerank.query_list import QueryList
from cbir.rerank.several_examples import learner_names
from cbir.search import Answer, Request, Searcher, Stopwatch, candidate_view
from cbir.search.view_vectors import ViewVectors
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter
from tests.cbir.store.conftest import entry

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
    """A searcher that re-ranks no more than its candidates and a sample, however few images there are."""
    loaded_settings = SETTINGS.model_copy(update={"indexed_candidates": candidates, "indexed_sample": sample})
    return without_whole_lists(Searcher(collection, loaded_settings, vectors))


def without_whole_lists(searcher: Searcher) -> Searcher:
    searcher.vectors.whole_up_to = 0
    return searcher


class Unlinked(ViewVectors):
    """Vectors of a collection whose graph is not built yet."""

    def graph(self) -> None:
        return None


class Outgrown(ViewVectors):
    """Vectors with a graph that lacks the last images."""

    missing = 10

    def graph(self) -> NumberedGraph:
        gallery = self.view.gallery
        stop = len(gallery) - self.missing
        graph = build_graph(find_neighbours(gallery.vectors(np.arange(stop)), gallery.space))
        return number_graph(gallery.ids[:stop], graph, gallery.space)


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
    "filter": {"where": ["label=a"]},
    "patient": {"exclude_patient": "p2"},
    "same patient": {"same_patient": True},
    "groups": {"group_by": "patient", "group_size": 2, "k": 5},
    "distance": {"max_distance": 10.0},
    "threshold": {"score_threshold": 0.2},
}


@pytest.mark.parametrize(
    ("method", "given"),
    [
        *((method, {}) for method in rerank.names()),
        *((method, given) for method in ("auto", "diffusion-eprf", "eprf") for given in REQUESTS.values()),
    ],
)
def test_with_all_images_as_candidates_nothing_changes(
    collection, ids, method: str, given: dict[str, Any]
) -> None:
    whole, indexed = Searcher(collection, SETTINGS), searcher_of(collection, IMAGES)
    given = {"k": IMAGES, "rerank": method} | given
    assert_same(ask(indexed, ids, 7, **given), ask(whole, ids, 7, **given))


@pytest.mark.parametrize("missing", [0, 10])
@pytest.mark.parametrize("method", ["diffusion", "feedback"])
def test_relevance_reaches_images_that_are_no_candidates(collection, ids, method: str, missing: int) -> None:
    given: dict[str, Any] = {"k": 30, "rerank": method}
    shared = {"stored": 0, "candidates": 0}
    whole = Searcher(collection, SETTINGS)
    searchers = {
        "stored": searcher_of(collection, 30, Outgrown(collection) if missing else None),
        "candidates": searcher_of(collection, 30, Unlinked(collection)),
    }
    for first in range(0, 40, 5):
        examples = (first,) if method == "diffusion" else (first, first)
        best = hit_ids(ask(whole, ids, *examples, **given))
        for name, searcher in searchers.items():
            answer = ask(searcher, ids, *examples, **given)
            assert len(answer.results) == 30
            shared[name] += len(best & hit_ids(answer))
    assert shared["stored"] > shared["candidates"]


def test_one_thread_of_blas_finds_where_relevance_begins(collection, ids, monkeypatch) -> None:
    threads, joined = list[int](), NumberedGraph.joined

    def note(self: NumberedGraph, *given: Any) -> np.ndarray:
        pools = [pool for pool in threadpool_info() if pool.get("threading_layer") == "pthreads"]  # of numpy
        threads.extend(pool["num_threads"] for pool in pools)
        return joined(self, *given)

    monkeypatch.setattr(NumberedGraph, "joined", note)
    with threadpool_limits(3, "blas"):
        ask(searcher_of(collection, 30), ids, 7, rerank="diffusion")
    assert set(threads) == {1}


def test_images_that_relevance_reaches_obey_the_request(collection, ids) -> None:
    searcher = searcher_of(collection, 20)
    answer = ask(searcher, ids, 0, k=20, rerank="diffusion", where=["label=b"], exclude_patient="p2")
    assert len(answer.results) == 20
    assert {hit.labels["label"] for hit in answer.results} == {"b"}
    assert not hit_ids(answer) & set(ids[8:12])
    both = ask(searcher, ids, 0, k=20, rerank="none", where=["label=a"], same_patient=True)
    assert [hit.image_id for hit in both.results] == [ids[2]]
    with LimitedCollection(collection, [parse_filter("label=a")]) as limited:
        answer = ask(without_whole_lists(searcher.over(limited)), ids, 0, k=20, rerank="diffusion")
        assert {hit.labels["label"] for hit in answer.results} == {"a"}


def hit_ids(answer: Answer) -> set[str]:
    return {hit.image_id for hit in answer.results}


@pytest.mark.parametrize("method", learner_names())
@pytest.mark.parametrize("where", [[], ["label=a"]])
def test_with_all_images_as_candidates_judgements_are_learnt_from_as_before(
    collection, ids, method: str, where: list[str]
) -> None:
    feedback = [
        {"image_id": ids[row], "relevance": value} for row, value in ((20, 1), (21, -1), (22, 0.5), (23, 0))
    ]
    given = {"k": IMAGES, "rerank": method, "feedback": feedback, "where": where}
    whole, indexed = Searcher(collection, SETTINGS), searcher_of(collection, IMAGES)
    assert_same(ask(indexed, ids, 0, 7, **given), ask(whole, ids, 0, 7, **given))


@pytest.mark.parametrize("method", ["none", "diffusion", "eprf", "nprf", "aqe", "feedback"])
def test_images_of_the_sample_are_no_hits(collection, ids, method: str) -> None:
    nearest = [
        hit.image_id for hit in ask(Searcher(collection, SETTINGS), ids, 0, k=20, rerank="none").results
    ]
    examples = (0, 0) if method == "feedback" else (0,)
    searcher = searcher_of(collection, 20, Unlinked(collection), sample=60)
    answer = ask(searcher, ids, *examples, k=20, rerank=method)
    assert {hit.image_id for hit in answer.results} == set(nearest)
    assert answer.rerank.scope == "the best 20 of 119 by an index"
    assert any("sample" in note for note in answer.rerank.notes) == (method not in ("none", "diffusion"))


@pytest.mark.parametrize("method", ["diffusion", "feedback", "eprf"])
def test_an_answer_without_the_graph_says_so(collection, ids, method: str) -> None:
    examples = (0, 0) if method == "feedback" else (0,)
    for vectors in (None, Unlinked(collection)):
        notes = ask(searcher_of(collection, 20, vectors), ids, *examples, k=20, rerank=method).rerank.notes
        said = vectors is not None and method != "eprf"
        assert (candidate_view.UNLINKED in notes) == said


def test_what_the_index_misses_is_found_in_the_sample(collection, ids) -> None:
    class Forgetful(ViewVectors):  # as an approximate index may be
        def nearest(self, queries, k, scope):
            found = super().nearest(queries, k + 5, scope)
            return [type(each)(each.numbers[5:], each.distances[5:]) for each in found]

    expected = ask(Searcher(collection, SETTINGS), ids, 0, k=10, rerank="none")
    answer = ask(searcher_of(collection, 10, Forgetful(collection), sample=119), ids, 0, k=10, rerank="none")
    assert [hit.image_id for hit in answer.results] == [hit.image_id for hit in expected.results]


def test_negatives_and_kernel_width_come_from_the_sample() -> None:
    """Candidates, more than their share of the collection, are not drawn as if they were typical of it."""
    vectors = np.random.default_rng(0).standard_normal((100, 4), np.float32)
    gallery, query = Gallery((vectors,), np.arange(100)), vectors[0] * 0
    sample = np.arange(0, 100, 5)
    ranking = replace(rank(query, gallery), sample=sample)
    query_list = QueryList(query, ranking, gallery)
    scores = ranking.similarities
    negatives = query_list.draw_negatives(scores, P=3, sets=20, lowest=0.5, seed=0)
    last = sample[np.argsort(scores[sample])[: len(sample) // 2]]
    assert set(negatives.ravel().tolist()) == set(last.tolist())
    assert set(query_list.sample_rows(50).tolist()) == set(sample.tolist())


def test_a_judged_image_beyond_the_candidates_is_a_hit_unless_it_is_filtered_out(collection, ids) -> None:
    last = ask(Searcher(collection, SETTINGS), ids, 0, k=IMAGES, rerank="none").results[-1]
    searcher = searcher_of(collection, 5, sample=20)
    feedback = [{"image_id": last.image_id, "relevance": 1.0}]
    assert ask(searcher, ids, 0, k=5, feedback=feedback).results[0].image_id == last.image_id
    other = "b" if last.labels["label"] == "a" else "a"
    filtered = ask(searcher, ids, 0, k=IMAGES, feedback=feedback, where=[f"label={other}"])
    assert last.image_id not in [hit.image_id for hit in filtered.results]


def test_a_limited_caller_gets_what_it_gets_from_all_images(collection, ids) -> None:
    with LimitedCollection(collection, [parse_filter("label=a")]) as limited:
        whole, indexed = (
            Searcher(collection, SETTINGS).over(limited),
            without_whole_lists(searcher_of(collection, IMAGES).over(limited)),
        )
        for method in ("none", "diffusion", "eprf"):
            found, expected = (ask(each, ids, 0, k=IMAGES, rerank=method) for each in (indexed, whole))
            assert {hit.labels["label"] for hit in found.results} == {"a"}
            assert [hit.image_id for hit in found.results][:5] == [hit.image_id for hit in expected.results][
                :5
            ]


def test_a_collection_of_fewer_images_than_candidates_is_ranked_as_a_whole(collection, ids) -> None:
    settings_of_few = SETTINGS.model_copy(update={"indexed_candidates": IMAGES})
    searcher = Searcher(collection, settings_of_few)
    assert ask(searcher, ids, 0, k=5).rerank.scope in ("collection", "top")


@pytest.mark.parametrize(
    ("candidates", "scope"), [(118, "the best 118 of 119 by an index"), (119, "collection")]
)
def test_as_many_candidates_as_match_are_all(collection, ids, candidates: int, scope: str) -> None:
    answer = ask(searcher_of(collection, candidates), ids, 0, k=5, rerank="eprf")
    assert answer.rerank.scope == scope
    assert bool(answer.rerank.notes) == (candidates == 118)


class Down(ViewVectors):
    """An index that does not answer."""

    def rows(self, scope):
        raise IndexUnavailable("the index of the collection does not answer")


def test_while_the_index_is_down_all_images_are_compared_and_the_answer_says_so(collection, ids) -> None:
    answer = ask(searcher_of(collection, 20, Down(collection)), ids, 0, k=5)
    expected = ask(Searcher(collection, SETTINGS), ids, 0, k=5)
    assert [hit.image_id for hit in answer.results] == [hit.image_id for hit in expected.results]
    assert any("All images were compared" in note for note in answer.rerank.notes)


def test_more_images_than_can_be_ranked_are_not_and_the_answer_says_so(
    collection, ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate_view, "AS_A_WHOLE", 30)
    searcher, said = searcher_of(collection, 10), "ranks 30 at most"
    for given in ({"k": 60}, {"k": 60, "group_by": "patient", "group_size": 10}):
        answer = ask(searcher, ids, 0, rerank="none", **given)
        assert len(answer.results) == 30
        assert any(said in note for note in answer.rerank.notes)
    for given in ({"k": 30}, {"k": 60, "where": ["label=a"], "exclude_patient": "p2"}):
        notes = ask(searcher, ids, 0, rerank="none", **given).rerank.notes
        assert any(said in note for note in notes) == (given["k"] == 60)
    assert not ask(Searcher(collection, SETTINGS), ids, 0, k=60, rerank="none").rerank.notes


def test_too_many_images_are_not_compared_while_the_index_is_down(collection, ids) -> None:
    searcher = searcher_of(collection, 20, Down(collection))
    object.__setattr__(
        searcher.vectors, "settings", SETTINGS.model_copy(update={"exact_limit": 10, "index": "hnsw"})
    )
    with pytest.raises(IndexUnavailable, match="120 images are too many"):
        ask(searcher, ids, 0, k=5)


def test_while_the_index_of_the_default_is_built_any_number_of_images_is_compared(collection, ids) -> None:
    searcher = searcher_of(collection, 20, Down(collection))
    object.__setattr__(
        searcher.vectors, "settings", SETTINGS.model_copy(update={"exact_limit": 10, "index": "auto"})
    )
    assert len(ask(searcher, ids, 0, k=5).results) == 5
    searcher.vectors.require_whole("a search by text")


def test_what_reads_all_images_says_so(collection) -> None:
    searcher = searcher_of(collection, 20, Down(collection))
    searcher.vectors.require_whole("a search by text")
    object.__setattr__(
        searcher.vectors, "settings", SETTINGS.model_copy(update={"exact_limit": 119, "index": "hnsw"})
    )
    with pytest.raises(InvalidInput, match="a search by text reads all images of the collection: 120 are"):
        searcher.vectors.require_whole("a search by text")
    Searcher(collection, SETTINGS).vectors.require_whole("a search by text")


def test_for_a_limited_caller_the_size_of_the_whole_collection_counts(collection, ids) -> None:
    """What a caller may not see is loaded with the rest."""
    settings = SETTINGS.model_copy(update={"exact_limit": 119, "indexed_candidates": 25, "index": "hnsw"})
    limited = LimitedCollection(collection, [parse_filter("label=a")])
    assert len(limited) == 60
    searcher = Searcher(collection, settings, Down(collection)).over(limited)
    with pytest.raises(IndexUnavailable, match="120 images are too many"):
        ask(searcher, ids, 0)
    with pytest.raises(InvalidInput, match="120 are too many"):
        searcher.vectors.require_whole("the map")


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("method", ["none", "auto", "eprf"])
def test_hardly_any_images(tmp_path, count: int, method: str) -> None:
    with Collection.create(tmp_path / "few", profiles.get("tamura")) as few:
        with few.writer() as writer:
            writer.add([entry(n) for n in range(count)])
            writer.finish()
        searcher = searcher_of(few, 1)
        raw = entry(50)[1]
        ranked = searcher.rank(raw, "", Request(k=5, rerank=method))
        assert len(ranked) == count
