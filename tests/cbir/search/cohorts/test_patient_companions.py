"""Images of patients of whom one was found: which they are, and that they are proposed sooner."""

from collections.abc import Iterator

import numpy as np
import pytest

from cbir import settings
from cbir.search import Searcher
from cbir.search.cohorts.cohort_pool import NO_COMPANIONS, collect_pool, find_companions
from cbir.search.cohorts.cohort_round import next_batch, start_round
from cbir.search.cohorts.missing_images import JudgedImage
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter
from tests.cbir.search.drawn_vectors import VectorsBehind

IMAGES = 300  # of 100 patients, three each; the last 30 have no patient


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    random = np.random.default_rng(0)
    entries = [
        (
            Record(
                content_hash=f"{number:032x}",
                source=f"/images/{number}.png",
                source_stamp="1",
                format="png",
                width=40,
                height=30,
                patient_key=f"key {number % 100}" if number < 270 else None,
                labels={"site": "a" if number < 200 else "b"},
            ),
            random.standard_normal(6).astype(np.float32),
        )
        for number in range(IMAGES)
    ]
    folder = tmp_path_factory.mktemp("companions") / "collection"
    with Collection.create(folder, profiles.get("tamura")) as created:
        with created.writer() as writer:
            writer.add(entries)
            writer.finish()
        yield created


def numbers_of(collection: Collection, places: list[int]) -> np.ndarray:
    return collection.numbers_of([f"{place:032x}" for place in places])


def test_companions_are_the_images_of_these_patients(collection: Collection) -> None:
    companions = find_companions(collection, numbers_of(collection, [5, 80, 280]), np.empty(0, np.int64))
    assert companions.numbers.tolist() == numbers_of(collection, [5, 80, 105, 180, 205]).tolist()
    assert companions.agreement == 1


def test_agreement_is_the_share_of_judged_companions_that_belong(collection: Collection) -> None:
    relevant, irrelevant = numbers_of(collection, [5, 105, 7, 8]), numbers_of(collection, [107, 207, 9, 280])
    assert find_companions(collection, relevant, irrelevant).agreement == (1 + 1) / (1 + 2 + 1)


def test_images_without_a_patient_have_no_companions(collection: Collection) -> None:
    nobody = numbers_of(collection, [280, 281])
    assert find_companions(collection, nobody, numbers_of(collection, [1])) == NO_COMPANIONS


def proposed(collection: Collection, judged: dict[int, bool]) -> set[int]:
    return proposed_by(Searcher(collection, settings.load()), judged)


def proposed_by(searcher: Searcher, judged: dict[int, bool]) -> set[int]:
    images = [JudgedImage(f"{place:032x}", relevant) for place, relevant in judged.items()]
    return {int(image.image_id, 16) for image in next_batch(searcher, start_round(searcher, images), 12)}


def test_companions_are_proposed_until_they_prove_irrelevant(collection: Collection) -> None:
    """Vectors are noise, so nothing but the patient says which images belong."""
    relevant = dict.fromkeys([1, 2, 3, 4], True)
    first = {place + more for place in relevant for more in (100, 200)} - {270}
    assert len(proposed(collection, relevant) & first) >= 7
    misses = dict.fromkeys([101, 201, 102, 202, 103], False)
    assert len(proposed(collection, relevant | misses) & {203, 104, 204}) <= 1


def test_a_limited_caller_learns_nothing_of_other_images(collection: Collection) -> None:
    with LimitedCollection(collection, [parse_filter("site=a")]) as limited:
        companions = find_companions(limited, numbers_of(collection, [5]), numbers_of(collection, [205]))
        assert companions.numbers.tolist() == numbers_of(collection, [5, 105]).tolist()
        assert companions.agreement == 1
        assert proposed(limited, dict.fromkeys([1, 2, 3, 4], True)) < set(range(200))


def test_images_of_more_patients_than_a_statement_takes(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cbir.store.records.image_rows.AT_ONCE", 3)
    keys = [f"key {number}" for number in range(100)]
    expected = numbers_of(collection, list(range(270)))
    assert collection.numbers_of_patients([*keys, *keys, "of nobody"]).tolist() == expected.tolist()
    assert collection.numbers_of_patients([]).tolist() == []


def test_an_index_need_not_find_companions(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds two neighbours; the patient's other images are in the pool too, and stand for themselves alone."""
    monkeypatch.setattr("cbir.search.cohorts.cohort_pool.SAMPLE", 10)
    searcher = Searcher(collection, settings.load(indexed_candidates=2), VectorsBehind(collection))
    relevant = numbers_of(collection, [5])
    companions = find_companions(collection, relevant, relevant[:0]).numbers
    pool = collect_pool(searcher, [], relevant, relevant, companions)
    assert len(pool.numbers) < 20
    assert pool.weights[pool.rows_of(companions)].tolist() == [1, 1, 1]
    assert pool.weights.sum() == pytest.approx(IMAGES)
    assert proposed_by(searcher, {5: True}) >= {105, 205}
    monkeypatch.setattr("cbir.search.cohorts.cohort_pool.COMPANIONS", 2)
    fewer = collect_pool(searcher, [], relevant, relevant, numbers_of(collection, list(range(100, 200))))
    assert len(fewer.numbers) <= len(pool.numbers)
    assert fewer.weights.sum() == pytest.approx(IMAGES)
