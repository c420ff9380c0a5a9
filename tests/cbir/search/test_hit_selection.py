"""Thresholds and groups, against a selection from the whole ranking one image at a time."""

import numpy as np
import pytest

from cbir import settings
from cbir.errors import InvalidInput
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter

COUNT = 260  # more than are ranked at first
METHODS = ["none", "auto", "eprf", "aqe"]


def labels_of(number):
    """Values in runs of 50, so that many images of one group are nearest; some images have no value."""
    common = {"half": str(number % 2)} | ({"patient": "label"} if number == 5 else {})
    return common | ({} if number % 50 == 7 else {"run": str(number // 50)})


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Vectors on a line, numbered by their distance from the query."""
    made = Collection.create(tmp_path_factory.mktemp("groups") / "collection", profiles.get("tamura"))
    noise = np.random.default_rng(0).normal(0, 0.05, (COUNT, 6))
    entries = []
    for number in range(COUNT):
        record = Record(
            content_hash=f"{number:032x}",
            source=f"/{number}.png",
            source_stamp="1",
            format="dicom" if number % 3 else "png",
            width=8,
            height=8,
            study=f"1.{number // 10}" if number % 3 else "",
            series=f"1.{number // 10}.{number % 2}" if number % 3 else "",
            instance=f"1.{number // 10}.{number % 2}.{number}" if number % 3 else "",
            patient_key=f"{number // 4:032x}" if number % 5 else None,
            labels=labels_of(number),
        )
        entries.append((record, (noise[number] + number / 10).astype(np.float32)))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    return made


def ask(collection, **options):
    searcher = Searcher(collection, settings.load(device="cpu"))
    return searcher.by_examples([], Request(**options), Stopwatch(), np.zeros(6, np.float32))


def key_of(hit, by):
    """The group's key of a hit; None for an image that has none."""
    if by in ("study", "series"):
        return getattr(hit.dicom, by) if hit.dicom else None
    return hit.patient if by == "patient" else hit.labels.get(by.removeprefix("label:"))


def select_slowly(hits, by, k, size):
    """Groups of all hits, in the order of their best ones."""
    groups = {}
    for hit in hits:
        groups.setdefault(key_of(hit, by) or (hit.id,), []).append(hit.id)
    return [image for members in list(groups.values())[:k] for image in members[:size]]


@pytest.mark.parametrize("by", ["patient", "study", "series", "run", "half", "label:patient"])
@pytest.mark.parametrize("method", METHODS)
def test_k_groups_come_back_whenever_k_groups_match(collection, by, method):
    everything = ask(collection, k=COUNT, rerank=method).results
    for k, size in ((1, 1), (6, 1), (6, 3), (COUNT, 2)):
        answer = ask(collection, k=k, rerank=method, group_by=by, group_size=size)
        assert [hit.id for hit in answer.results] == select_slowly(everything, by, k, size)
        assert (answer.grouping.by, answer.grouping.size) == (by, size)
        assert [hit.rank for hit in answer.results] == list(range(1, len(answer.results) + 1))
        assert [hit.group.key for hit in answer.results] == [key_of(hit, by) for hit in answer.results]


def test_the_rest_of_a_group_is_counted_within_the_depth(collection):
    everything = ask(collection, k=COUNT, rerank="none").results
    answer = ask(collection, k=9, rerank="none", group_by="run", group_size=2)
    depth = answer.grouping.depth
    assert depth == COUNT  # the fifth run begins beyond the images ranked at first
    within = [hit.labels.get("run") for hit in everything[:depth]]
    for hit in answer.results:
        expected = within.count(hit.group.key) - 2 if hit.group.key else 0
        assert hit.group.more == expected
    shallow = ask(collection, k=2, rerank="none", group_by="run")
    assert shallow.grouping.depth == 200
    assert shallow.results[0].group.more == sum(hit.labels.get("run") == "0" for hit in everything[:200]) - 1
    assert [hit.group.rank for hit in shallow.results] == [1, 2]


def test_a_threshold_ends_the_search_for_groups_beyond_it_alone(collection):
    everything = ask(collection, k=COUNT, rerank="none").results
    for last in (150, 240):  # within and beyond the images ranked at first
        threshold = everything[last].score
        answer = ask(collection, k=9, rerank="none", group_by="run", score_threshold=threshold)
        assert [hit.id for hit in answer.results] == select_slowly(everything[: last + 1], "run", 9, 1)
        assert answer.grouping.depth == (200 if last == 150 else COUNT)


def test_groups_go_with_filters_feedback_and_limits(collection):
    filtered = ask(
        collection, k=3, group_by="run", where=["half=1", "run=1", "run=4", "run=3"], rerank="auto"
    )
    assert [hit.group.key for hit in filtered.results] == ["1", "3", "4"]
    assert {hit.labels["half"] for hit in filtered.results} == {"1"}
    everything = ask(collection, k=COUNT).results
    judged = [
        {"image_id": everything[-1].id, "relevance": 1},
        {"image_id": everything[0].id, "relevance": -1},
    ]
    learned = ask(collection, k=COUNT, feedback=judged).results
    grouped = ask(collection, k=4, feedback=judged, group_by="run")
    assert [hit.id for hit in grouped.results] == select_slowly(learned, "run", 4, 1)
    assert grouped.results[0].id == everything[-1].id
    limited = LimitedCollection(collection, [parse_filter("half=0")])
    seen = ask(limited, k=2, group_by="run")
    assert (
        seen.results[0].group.more == sum(labels_of(n) == {"half": "0", "run": "0"} for n in range(200)) - 1
    )
    limited.close()


def test_an_unknown_label_is_named(collection):
    with pytest.raises(InvalidInput, match="no image has a label 'runs'; did you mean 'run'"):
        ask(collection, group_by="runs")


@pytest.mark.parametrize("method", METHODS)
def test_thresholds_cut_the_answer_and_nothing_else(collection, method):
    everything = ask(collection, k=COUNT, rerank=method).results
    score, distance = everything[20].score, sorted(hit.distance for hit in everything)[30]
    above = ask(collection, k=COUNT, rerank=method, score_threshold=score).results
    assert above == [hit for hit in everything if hit.score >= score]
    assert 21 <= len(above) < COUNT
    near = [hit.id for hit in everything if hit.distance <= distance]
    assert len(near) == 31
    assert [hit.id for hit in ask(collection, k=COUNT, rerank=method, max_distance=distance).results] == near
    assert [hit.id for hit in ask(collection, k=5, rerank=method, max_distance=distance).results] == near[:5]
    both = ask(collection, k=COUNT, rerank=method, max_distance=distance, score_threshold=score).results
    assert [hit.id for hit in both] == [hit.id for hit in above if hit.id in near]
    assert ask(collection, rerank=method, score_threshold=2e9).results == []
    assert ask(collection, rerank=method, max_distance=0).results == []


def test_near_images_that_a_method_ranks_low_are_found(collection):
    """Judged irrelevant, the nearest images are last of all, beyond the images ranked at first."""
    nearest = ask(collection, k=12, rerank="none").results
    judged = [{"image_id": hit.id, "relevance": -1} for hit in nearest[:11]]
    judged.append({"image_id": nearest[11].id, "relevance": 1})
    answer = ask(collection, k=5, feedback=judged, max_distance=nearest[10].distance)
    assert {hit.id for hit in answer.results} < {hit.id for hit in nearest[:11]}
    assert len(answer.results) == 5


def test_a_group_is_judged_by_its_images_within_the_thresholds(collection):
    limit = ask(collection, k=60, rerank="none").results[-1].distance
    answer = ask(collection, k=COUNT, rerank="none", max_distance=limit, group_by="half")
    assert [hit.group.more for hit in answer.results] == [29, 29]


def test_an_empty_collection_has_no_groups(tmp_path):
    empty = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    assert ask(empty, group_by="patient").results == []
    assert ask(empty, max_distance=1.0, score_threshold=0.5).results == []
