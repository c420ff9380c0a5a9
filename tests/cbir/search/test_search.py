"""One query path, from image or id to ranked answer."""

import math
from itertools import pairwise

import cv2
import numpy as np
import pytest

from cbir import rerank, settings
from cbir.api.commands.search_images import trec_lines
from cbir.descriptors import get as descriptor
from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.images import from_array
from cbir.search import Request, Searcher, Stopwatch, select_frame
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import add_labels, describe_record


def picture(number):
    """A picture of one of two textures: fine for even numbers, coarse for odd ones."""
    noise = np.random.default_rng(number).integers(0, 256, (48, 48), np.uint8)
    return from_array(cv2.GaussianBlur(noise, (0, 0), 4) if number % 2 else noise)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    made = Collection.create(tmp_path_factory.mktemp("search") / "collection", profiles.get("tamura"))
    entries = []
    for number in range(60):
        image = picture(number)
        record = describe_record(image, source=f"/{number}.png", source_stamp="1", secret=made.secret)
        labels = {
            "label": "coarse" if number % 2 else "fine",
            "number": str(number),
            "patient": f"p{number // 4}",
        }
        entries.append((add_labels(record, labels, made.secret), descriptor("tamura")(image)))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    return made


@pytest.fixture
def ask(collection):
    def search(what, **options):
        searcher = Searcher(collection, settings.load(**options.pop("in_force", {})))
        find = searcher.by_id if isinstance(what, str) else searcher.by_image
        return find(what, Request(**options), Stopwatch())

    return search


@pytest.mark.parametrize("method", rerank.names())
def test_the_answer_is_ranked_and_says_how(ask, method):
    answer = ask(picture(1001), k=10, rerank=method)
    assert [hit.rank for hit in answer.results] == list(range(1, 11))
    scores = [hit.score for hit in answer.results]
    assert scores == sorted(scores, reverse=True)
    assert {hit.labels["label"] for hit in answer.results[:5]} == {"coarse"}
    assert answer.rerank.method == method
    assert set(answer.timings_ms) == {"decode", "describe", "search", "rerank", "total"}
    assert answer.query.image_id is None


def test_unranked_answers_are_the_nearest(ask, collection):
    answer = ask(picture(1001), k=60, rerank="none")
    view = collection.view()
    query = view.statistics.normalise(descriptor("tamura")(picture(1001)))
    vectors = np.concatenate(view.gallery.blocks)
    distances = np.sort(np.linalg.norm(vectors.astype(float) - query, axis=1))
    np.testing.assert_allclose([hit.distance for hit in answer.results], distances, atol=1e-5)
    assert answer.results[0].score == 1.0
    assert answer.results[-1].score == 0.0


def test_a_query_in_the_collection_is_left_out_of_its_own_answer(ask):
    by_image = ask(picture(7), k=100)
    image_id = by_image.query.image_id
    assert image_id
    assert len(by_image.results) == 59
    assert image_id not in {hit.image_id for hit in by_image.results}
    by_id = ask(image_id, k=100)
    assert by_id.results == by_image.results
    assert by_id.query.image_id == image_id


def test_filters_work_inside_the_search(ask):
    answer = ask(picture(1001), k=30, where=["label=fine"])
    assert len(answer.results) == 30
    assert {hit.labels["label"] for hit in answer.results} == {"fine"}
    assert len(ask(picture(1001), k=5, where=["label=fine", "number<10"]).results) == 5
    assert ask(picture(1001), k=5, where=["label=none"]).results == []


def test_a_patient_can_be_excluded_by_key_or_identifier(ask):
    key = ask(picture(5), k=60).results[0].patient
    for patient in (key, "p1"):
        found = ask(picture(5), k=60, exclude_patient=patient).results
        assert all(hit.patient != (key if patient == key else None) for hit in found)
    kept = {hit.labels["number"] for hit in ask(picture(5), k=60, exclude_patient="p1").results}
    assert kept.isdisjoint({"4", "5", "6", "7"})
    assert len(kept) == 56


def test_of_many_images_the_best_are_reranked_and_the_answer_says_so(ask):
    limits = {"indexed_candidates": 14, "indexed_sample": 10}
    answer = ask(picture(1001), k=10, in_force=limits)
    assert "best 10 of 60" in answer.rerank.scope
    assert {hit.labels["label"] for hit in answer.results[:5]} == {"coarse"}
    assert ask(picture(1001), k=10, in_force={"indexed_candidates": 15}).rerank.scope == "collection"
    assert len(ask(picture(1001), k=40, in_force=limits).results) == 40


def test_parameters_are_the_profiles_then_the_requests(collection, ask):
    tuned = collection.profile.model_copy(update={"rerank": {"C": 3.0, "gamma": 0.5}})
    with collection.writer() as writer:
        writer.set_profile(tuned)
    try:
        assert ask(picture(1), rerank="none").rerank.parameters == {}
        answer = ask(picture(1), rerank="eprf", parameters={"gamma": 2.0, "P": 3})
        assert [answer.rerank.parameters[name] for name in ("C", "gamma", "P")] == [3.0, 2.0, 3]
    finally:
        with collection.writer() as writer:
            writer.set_profile(tuned.model_copy(update={"rerank": {}}))


def test_the_default_method_is_that_of_the_settings(ask):
    assert ask(picture(1), in_force={"rerank": "eprf"}).rerank.method == "eprf"
    assert ask(picture(1), in_force={"rerank": "eprf"}, rerank="pearson").rerank.method == "pearson"
    assert ask(picture(1), in_force={"rerank": "eprf"}, rerank="auto").rerank.method == "none"
    by_default = ask(picture(1))
    assert by_default.rerank.method == "none", "auto, and no method gains with tamura alone"
    assert "tamura" in by_default.rerank.reason
    plain = [hit.image_id for hit in ask(picture(1), rerank="eprf", k=40).results]
    assert [hit.image_id for hit in ask(picture(1), in_force={"rerank": "eprf"}, k=40).results] == plain


def test_parameters_without_a_method_are_of_the_automatic_one(ask):
    answer = ask(picture(1), parameters={"damping": 0.5})
    assert (answer.rerank.method, answer.rerank.parameters["damping"]) == ("diffusion-eprf", 0.5)


def test_bad_requests_are_named(ask):
    with pytest.raises(NotFound, match="nobody"):
        ask("nobody")
    with pytest.raises(InvalidInput, match="filter"):
        ask(picture(1), where=["label"])
    with pytest.raises(InvalidInput, match="magic"):
        ask(picture(1), rerank="magic")
    with pytest.raises(InvalidInput, match="magic"):
        ask(picture(1), parameters={"magic": 1})


def test_an_empty_collection_answers_with_nothing(tmp_path):
    empty = Collection.create(tmp_path / "empty", profiles.get("tamura"))
    for method in rerank.names():
        answer = Searcher(empty, settings.load()).by_image(picture(1), Request(rerank=method), Stopwatch())
        assert answer.results == []


def test_the_same_query_has_the_same_answer(ask):
    assert ask(picture(1001), k=60).results == ask(picture(1001), k=60).results


def test_trec_scores_fall_strictly(ask):
    answer = ask(picture(1001), k=60, rerank="diffusion")
    for hit in answer.results[:20]:
        hit.score = 1.0  # as a saturated sigmoid would
    lines = [line.split(" ") for line in trec_lines(answer, "/folder/my query.dcm")]
    assert {(len(line), line[0], line[1], line[5]) for line in lines} == {(6, "my_query", "Q0", "diffusion")}
    scores = [float(line[4]) for line in lines]
    assert all(math.isfinite(score) for score in scores)
    assert all(later < earlier for earlier, later in pairwise(scores))


def test_the_frame_of_a_query():
    frames = [picture(1), picture(2)]
    assert select_frame(iter(frames), None, "x") is frames[0]
    assert select_frame(iter(frames), 2, "x") is frames[1]
    with pytest.raises(UnreadableImage, match="no frame 3"):
        select_frame(iter(frames), 3, "x")
    with pytest.raises(InvalidInput, match="from 1"):
        select_frame(iter(frames), 0, "x")
