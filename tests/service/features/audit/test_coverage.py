"""Counts of values, and which are thin."""

from pathlib import Path

import numpy as np
import pytest

from cbir import settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import Entry, Record
from service.features.audit.audited_images import read_audited_images
from service.features.audit.label_values import count_coverage
from service.features.audit.messages import CoverageValue

# Images of a body part, of how many patients, and how many of them name none.
PARTS = {
    "chest": (40, 30, 5),
    "knee": (30, 2, 0),
    "hand": (25, 1, 20),
    "spine": (6, 6, 0),
    "hip": (24, 0, 24),
}


def entries() -> list[Entry]:
    random = np.random.default_rng(0)
    images = [(part, number) for part, (count, *_) in PARTS.items() for number in range(count)]
    made = []
    for part, number in images:
        _, patients, unnamed = PARTS[part]
        patient = f"{part}-{number % patients}" if number >= unnamed else None
        labels = {"body_part": part, "modality": "CR"} if part != "hip" else {"body_part": part}
        content = f"{part}{number:02}".rjust(32, "0")
        record = Record(content, f"/{content}.png", "", "png", 9, 9, patient_key=patient, labels=labels)
        made.append((record, random.normal(0, 1, 80).astype(np.float32)))
    return made


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    collection = Collection.create(tmp_path_factory.mktemp("coverage") / "c", profiles.get("edge_histogram"))
    with collection.writer() as writer:
        writer.add(entries())
        writer.finish()
    return collection


def test_values_are_counted_and_thin_ones_marked(collection: Collection) -> None:
    coverage = count_coverage(collection, read_audited_images(collection, settings.load()), [])
    assert (coverage.patients, coverage.without_patient) == (39, 49)
    body, modality = sorted(coverage.labels, key=lambda label: label.key)
    assert modality.unlabelled == 24
    assert body.values == [
        CoverageValue(value="chest", images=40, patients=30, thin=False),
        CoverageValue(value="knee", images=30, patients=2, thin=True),
        CoverageValue(
            value="hand", images=25, patients=1, thin=False
        ),  # 20 images may be of as many patients
        CoverageValue(value="hip", images=24, patients=None, thin=False),
        CoverageValue(value="spine", images=6, patients=6, thin=True),
    ]
    assert coverage.thin == 2


def test_a_label_that_no_image_has_is_left_out(collection: Collection) -> None:
    images = read_audited_images(collection, settings.load())
    keys = {label.key for label in count_coverage(collection, images, ["ward"]).labels}
    assert keys == {"body_part", "modality"}


def test_an_empty_collection_has_nothing_to_count(tmp_path: Path) -> None:
    empty = Collection.create(tmp_path / "c", profiles.get("edge_histogram"))
    coverage = count_coverage(empty, read_audited_images(empty, settings.load()), [])
    assert (coverage.patients, coverage.labels, coverage.thin) == (0, [], 0)
