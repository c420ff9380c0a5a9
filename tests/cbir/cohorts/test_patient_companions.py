"""Images of patients of whom one was found: which they are, and that they are proposed sooner."""

from collections.abc import Iterator

import numpy as np
import pytest

from cbir import settings
from cbir.cohorts.cohort_round import next_batch, start_round
from cbir.cohorts.judged_image import JudgedImage
from cbir.cohorts.patient_companions import NO_COMPANIONS, find_companions
from cbir.search import Searcher
from cbir.store import Collection, Record
from cbir.store import profile as profiles

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
    images = [JudgedImage(f"{place:032x}", relevant) for place, relevant in judged.items()]
    searcher = Searcher(collection, settings.load())
    return {int(image.image_id, 16) for image in next_batch(searcher, start_round(searcher, images), 12)}


def test_companions_are_proposed_until_they_prove_irrelevant(collection: Collection) -> None:
    """Vectors are noise, so nothing but the patient says which images belong."""
    relevant = dict.fromkeys([1, 2, 3, 4], True)
    first = {place + more for place in relevant for more in (100, 200)} - {270}
    assert len(proposed(collection, relevant) & first) >= 7
    misses = dict.fromkeys([101, 201, 102, 202, 103], False)
    assert len(proposed(collection, relevant | misses) & {203, 104, 204}) <= 1
