"""Answers are those of a comparison with all images, whatever the index has followed."""

import random
import sys
from threading import Barrier, Thread

import numpy as np
import pytest

from cbir.errors import IndexUnavailable
from cbir.store.index import current_index, indexed_vectors, scope_numbers
from cbir.store.index.port import IndexScope
from cbir.store.index.scope_numbers import RandomOrder, lowest, random_keys
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import DicomScope, PatientScope, parse_filters
from tests.cbir.store.index.followed import DIMENSIONS, Followed, holds, make_entries

SCOPES = [
    IndexScope(),
    IndexScope(where=parse_filters(["part=knee"])),
    IndexScope(where=parse_filters(["part!=hand"]), without_patients=(f"{2:032x}",)),
    IndexScope(where=parse_filters(["rare?"])),
    IndexScope(of_patients=(PatientScope(f"{3:032x}", besides="1.2.1"),)),
    IndexScope(without_patients=(f"{1:032x}", f"{4:032x}")),
    IndexScope(outside=DicomScope("1.2.2")),
    IndexScope(where=parse_filters(["part=nothing"])),
]


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let filters reach the index, and left-out images too."""
    monkeypatch.setattr(scope_numbers, "AS_A_WHOLE", 40)
    monkeypatch.setattr(scope_numbers, "LEFT_OUT", 30)
    monkeypatch.setattr(indexed_vectors, "READ", 10)


def change(followed: Followed, choose: random.Random, next_number: int) -> int:
    """Change the collection at random, or let the index follow; return the next number of an entry."""
    ids = followed.ids()
    step = choose.choice(
        ["add", "delete", "label", "patient", "compact", "refit", "erase", "follow", "follow"]
    )
    if step == "follow":
        assert followed.index.follower.follow()
        return next_number
    with followed.collection.writer() as writer:
        if step == "add":
            writer.add(make_entries(next_number, next_number + 15))
            return next_number + 15
        if step == "delete":
            writer.delete(choose.sample(ids, 10))
        elif step == "label":
            writer.label_images(
                "part", dict.fromkeys(choose.sample(ids, 10), choose.choice(["knee", "hand"]))
            )
        elif step == "patient":
            source = followed.collection.record(choose.choice(ids)).source
            writer.relabel(source, {}, patient_key=f"{choose.randrange(7):032x}")
        elif step == "erase":
            writer.erase_patient([f"{choose.randrange(20):032x}"])
        else:
            writer.compact(refit=step == "refit")
    return next_number


@pytest.mark.parametrize(
    ("followed", "seed"),
    [
        *(("hnsw", seed) for seed in range(3)),
        *(pytest.param(kind, 0, marks=pytest.mark.slow) for kind in ("pgvector", "milvus")),
    ],
    indirect=["followed"],
)
def test_random_changes(followed: Followed, seed: int):
    followed.filled(150)
    choose, number = random.Random(seed), 150
    for step in range(8):
        number = change(followed, choose, number)
        followed.require_exact(SCOPES, seed=step)
    followed.index.follower.follow()
    followed.require_same()
    followed.require_exact(SCOPES, k=1000)


def test_copies_of_the_query_are_left_out(followed: Followed):
    followed.filled(100)
    contents = tuple(record.content_hash for _, record in followed.collection.page(limit=60))
    followed.require_exact([IndexScope(without_contents=contents[:3]), IndexScope(without_contents=contents)])


def test_batch_of_queries_and_no_query(hnsw: Followed):
    hnsw.filled(100)
    queries = np.random.default_rng(0).normal(0, 1, (50, DIMENSIONS)).astype(np.float32)
    found = hnsw.index.vectors.nearest(queries, 3)
    assert [answer.numbers.tolist() for answer in found] == [
        hnsw.exact(query, 3, IndexScope()).numbers.tolist() for query in queries
    ]
    assert hnsw.index.vectors.nearest(queries[:0], 3) == []


def test_vectors_and_counts(hnsw: Followed):
    hnsw.filled(100)
    with hnsw.collection.writer() as writer:
        writer.add(make_entries(100, 110))
        writer.delete(hnsw.ids()[:5])
    numbers, vectors = hnsw.index.vectors.vectors(np.array([105, 3, 50, 999, 50]))
    assert numbers.tolist() == [50, 105]
    expected = hnsw.index.vectors.statistics.normalise(hnsw.collection.raw_vectors(numbers))
    np.testing.assert_array_equal(vectors, expected)
    assert len(hnsw.index.vectors) == hnsw.index.vectors.count() == 105
    assert hnsw.index.vectors.count(SCOPES[3]) == 2
    assert hnsw.index.vectors.count(SCOPES[5]) is None
    within = hnsw.index.vectors.within(np.array([2, 51, 101, 60, 999]), SCOPES[3])
    assert within.tolist() == [51, 101]


def test_samples_are_parts_of_larger_ones_and_the_same_in_every_process(hnsw: Followed):
    hnsw.filled(300)
    small, vectors = hnsw.index.vectors.sample(20)
    large, _ = hnsw.index.vectors.sample(100)
    assert set(small) < set(large)
    assert small.tolist() == sorted(small)
    np.testing.assert_array_equal(vectors, hnsw.index.vectors.vectors(small)[1])
    assert hnsw.opened().vectors.sample(20)[0].tolist() == small.tolist()
    with hnsw.collection.writer() as writer:
        gone = hnsw.collection.records(small[:5].tolist())
        writer.delete([record.image_id for record in gone.values()])
        writer.add(make_entries(300, 310))
    after, _ = hnsw.index.vectors.sample(20)
    assert len(after) == 20
    assert not set(after) & set(small[:5])
    assert len(set(after) & set(small)) > 10
    assert len(hnsw.index.vectors.sample(1000)[0]) == len(hnsw.index.vectors)


@pytest.mark.parametrize("scope", SCOPES)
def test_samples_of_scopes(hnsw: Followed, scope: IndexScope):
    hnsw.filled(300)
    matching = {number for number, record in hnsw.collection.iterate() if holds(record, scope)}
    numbers, vectors = hnsw.index.vectors.sample(30, scope)
    assert set(numbers) <= matching
    assert len(numbers) == len(vectors) == min(30, len(matching))
    assert set(hnsw.index.vectors.sample(1000, scope)[0]) == matching


def test_limited_caller_sees_no_other_image(followed: Followed):
    followed.filled(150)
    conditions = parse_filters(["part=knee"])
    limited = LimitedCollection(followed.collection, conditions)
    with followed.collection.writer() as writer:
        writer.label_images("part", dict.fromkeys(followed.ids()[:60], "hand"))
    visible = set(limited.image_ids())
    vectors = followed.index.vectors.over(limited)
    assert len(vectors) == len(visible)
    query = np.zeros((1, DIMENSIONS), np.float32)
    for scope in SCOPES:
        (found,) = vectors.nearest(query, 100, scope)
        expected = followed.exact(query[0], 1000, scope)
        assert found.numbers.tolist() == [n for n in expected.numbers.tolist() if n in visible]
        assert set(vectors.sample(50, scope)[0]) <= visible
        assert set(vectors.within(np.arange(200), scope)) <= visible
    assert set(vectors.vectors(np.arange(200))[0]) == visible


def test_index_that_lacks_too_much(hnsw: Followed, monkeypatch: pytest.MonkeyPatch):
    hnsw.filled(50)
    monkeypatch.setattr(current_index, "MOST_LACKING", 9)
    with hnsw.collection.writer() as writer:
        writer.add(make_entries(50, 60))
    with pytest.raises(IndexUnavailable, match="lacks 10 images"):
        hnsw.index.vectors.nearest(np.zeros((1, DIMENSIONS), np.float32), 1)


def test_more_relabelled_images_than_are_compared_one_by_one(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
):
    followed.filled(150)
    monkeypatch.setattr(current_index, "AS_A_WHOLE", 5)
    with followed.collection.writer() as writer:
        writer.label_images("part", dict.fromkeys(followed.ids()[:50], "hand"))
    knees = IndexScope(where=parse_filters(["part=knee"]))
    followed.require_exact([knees], k=20)  # no image that is a knee no longer
    for others in ((), (f"{2:032x}",)):
        followed.require_exact(
            [IndexScope(where=parse_filters(["part=hand"]), without_patients=others)], k=40
        )


def test_index_of_a_later_state_is_not_used(hnsw: Followed):
    hnsw.filled(50)
    opened = hnsw.index.current.opened()
    position = opened.index.position()
    assert position
    opened.index.set_position(position._replace(generation=position.generation + 10))
    hnsw.index = hnsw.opened()
    with pytest.raises(IndexUnavailable, match="later state"):
        hnsw.index.vectors.sample(5)
    assert hnsw.index.follower.follow()
    hnsw.require_same()
    hnsw.require_exact(SCOPES)


def test_random_order():
    keys = random_keys(np.arange(100_000))
    assert len(np.unique(keys)) == 100_000
    shares = np.bincount((keys >> np.uint64(60)).astype(int), minlength=16) / 100_000
    assert np.abs(shares - 1 / 16).max() < 0.005
    order = RandomOrder()
    order.upto(1000)
    np.testing.assert_array_equal(order.upto(70_000)[:500], lowest(np.arange(1, 70_001), 500))


def test_searches_at_the_same_time_draw_each_number_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope_numbers, "POOL", 4)
    first, interval = lowest(np.arange(1, 1985), 4).tolist(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            order, together = RandomOrder(), Barrier(4)

            def grow(order: RandomOrder = order, together: Barrier = together) -> None:
                together.wait()
                for last in range(64, 2000, 64):
                    order.upto(last)

            threads = [Thread(target=grow) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert order.upto(1984).tolist() == first
    finally:
        sys.setswitchinterval(interval)
