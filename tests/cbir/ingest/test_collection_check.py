"""Images against a collection: negatives, other modalities, and images that are unlike it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from cbir.gallery.vector_blocks import Floats, Rows
from cbir.ingest import collection_check
from cbir.ingest.collection_check import CollectionCheck, patient_numbers
from cbir.ingest.description import DescribedFile
from cbir.ingest.intake_check import IntakeCheck
from cbir.ingest.pixel_checks import findings_of
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import Record

CENTRES = {"CT": 0.2, "MR": 0.8}


def record(name: object, **labels: str) -> Record:
    return Record(f"{name:>032}", f"/images/{name}.png", "stamp", "png", 9, 9, labels=labels)


def vector(modality: str, seed: int) -> Floats:
    """A vector near the centre of a modality."""
    noise = np.random.default_rng(seed).normal(0, 0.02, 80)
    return (CENTRES[modality] + noise).astype(np.float32)


def collection_of(folder: Path, count: int) -> Collection:
    collection = Collection.create(folder, profiles.get("edge_histogram"))
    modalities = [list(CENTRES)[number % 2] for number in range(count)]
    entries = [
        (record(number, modality=modality), vector(modality, number))
        for number, modality in enumerate(modalities)
    ]
    with collection.writer() as writer:
        writer.add(entries)
        writer.finish()
    return collection


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> CollectionCheck:
    return CollectionCheck(
        collection_of(tmp_path_factory.mktemp("check") / "c", 1100)
    )  # the least likeness is 1 / 1101


def findings(check: CollectionCheck, own: Floats, negative: Floats | None = None, **labels: str) -> list[str]:
    ((checked, kept),) = check.check([(record("new", **labels), own)], [negative])
    assert kept is own
    return findings_of(checked)


FAR = np.full(80, 5.0, np.float32)
FARTHER = np.full(80, -7.0, np.float32)


def test_an_image_like_others_has_no_finding(check: CollectionCheck) -> None:
    assert findings(check, vector("CT", 500), FAR, modality="CT") == []


def test_an_image_whose_negative_is_at_home_is_inverted(check: CollectionCheck) -> None:
    assert findings(check, FAR, vector("MR", 500), modality="MR") == ["inverted"]
    assert findings(check, FAR) == ["unlike"]


def test_an_image_that_is_as_foreign_as_its_negative_is_unlike(check: CollectionCheck) -> None:
    assert findings(check, FARTHER, FAR) == ["unlike"]


def test_collections_with_both_polarities_flag_neither(check: CollectionCheck) -> None:
    assert findings(check, vector("CT", 500), vector("MR", 501)) == []
    assert findings(check, vector("MR", 501), vector("CT", 500)) == []


def test_another_modality_than_all_neighbours_is_found(check: CollectionCheck) -> None:
    assert findings(check, vector("CT", 500), modality="MR") == ["modality"]
    assert findings(check, vector("CT", 500), modality="US") == [], "the collection has none to compare with"
    assert findings(check, vector("CT", 500)) == []


def test_a_blank_image_is_blank_alone(check: CollectionCheck) -> None:
    assert findings(check, FAR, vector("CT", 500), intake="blank") == ["blank"]


def test_a_small_collection_says_nothing(tmp_path: Path) -> None:
    check = CollectionCheck(collection_of(tmp_path / "small", 99))
    assert findings(check, FAR, vector("CT", 500), modality="MR") == []


def test_a_collection_of_an_encoder_finds_what_is_unlike_it(tmp_path: Path) -> None:
    """Of 249 images the strangest say too little of how rare a stranger one is."""
    profile = profiles.get("lite0-global")
    random = np.random.default_rng(0)
    vectors = random.normal(3, 1, (250, 432)).astype(np.float32)
    collection = Collection.create(tmp_path / "c", profile)
    with collection.writer() as writer:
        writer.add([(record(number), values) for number, values in enumerate(vectors[:249])])
        writer.finish()
    strange = random.normal(0, 3, 432).astype(np.float32)
    assert findings(CollectionCheck(collection), strange) == []
    with collection.writer() as writer:
        writer.add([(record(249), vectors[249])])
        writer.finish()
    check = CollectionCheck(collection)
    assert findings(check, strange) == ["unlike"]
    assert findings(check, vectors[5] + 0.1) == []


def test_images_of_a_patient_have_the_same_number(tmp_path: Path) -> None:
    collection = collection_of(tmp_path / "c", 4)
    with collection.writer() as writer:
        writer.add([(replace(record(n), patient_key="p"), vector("CT", n)) for n in (4, 5)])
        writer.finish()
    numbers = collection.matching_numbers(())
    patients = patient_numbers(collection.records(numbers.tolist()), numbers)
    assert patients[-2] == patients[-1]
    assert len(set(patients.tolist())) == len(numbers) - 1


def test_images_are_read_again_when_one_is_deleted_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = collection_of(tmp_path / "c", 1100)
    matching = collection.matching_numbers

    def delete_after(where: tuple[()]) -> Rows:
        numbers = matching(where)
        if len(numbers) == 1100:
            with collection.writer() as writer:
                writer.delete([collection.records([int(numbers[0])])[int(numbers[0])].image_id])
        return numbers

    monkeypatch.setattr(collection, "matching_numbers", delete_after)
    assert findings(CollectionCheck(collection), FAR) == ["unlike"]


def test_threads_that_write_at_once_read_the_collection_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection, made = collection_of(tmp_path / "c", 1100), list[Collection]()
    together = Barrier(4)

    def make(of: Collection) -> CollectionCheck:
        made.append(of)
        return CollectionCheck(of)

    monkeypatch.setattr(collection_check, "CollectionCheck", make)
    intake = IntakeCheck(collection, "flag")

    def write(number: int) -> list[str]:
        together.wait(10)
        entry = record(number), FAR
        ((checked, _),) = intake.check(writer, [entry], [DescribedFile((entry[0],))])
        return findings_of(checked)

    with collection.writer() as writer, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(4))) == [["unlike"]] * 4
    assert made == [collection]
