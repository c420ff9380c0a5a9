"""Leaks between the parts of a split."""

import numpy as np
import pytest

from cbir.errors import InvalidInput
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from service.features.audit.duplicates import DuplicateGroup, DuplicateMember, Duplicates, find_leaks

NONE = Duplicates((), (), 0)


@pytest.fixture
def collection(tmp_path):
    with Collection.create(tmp_path / "collection", profiles.get("tamura")) as created:
        yield created


def add(collection, *images):
    """Add images given as (part or None, patient, study, content)."""
    entries = [
        (
            Record(
                content_hash=content, source=f"/{number}.png", source_stamp="1", format="png", width=1, height=1,
                study=study, patient_key=patient, labels={"split": part} if part else {"other": "x"},
            ),
            np.arange(6, dtype=np.float32) + number,
        )
        for number, (part, patient, study, content) in enumerate(images)
    ]  # fmt: skip
    with collection.writer() as writer:
        writer.add(entries, duplicates=True)
    return [record for _, record in collection.iterate()]


def kinds(leaks):
    return [(leak.kind, [image.source for image in leak.images]) for leak in leaks]


def test_a_patient_in_two_parts_leaks(collection):
    add(
        collection,
        ("train", "p", "", "a"),
        ("test", "p", "", "b"),
        ("test", "q", "", "c"),
        ("test", "q", "", "d"),
    )
    leaks = find_leaks(collection, "split", NONE)
    assert kinds(leaks) == [("patient", ["/0.png", "/1.png"])]
    assert {image.part for image in leaks[0].images} == {"test", "train"}


def test_a_study_leaks_and_no_study_does_not(collection):
    add(
        collection,
        ("train", None, "1.2", "a"),
        ("test", None, "1.2", "b"),
        ("train", None, "", "c"),
        ("test", None, "", "d"),
    )
    assert kinds(find_leaks(collection, "split", NONE)) == [("study", ["/0.png", "/1.png"])]


def test_the_same_picture_leaks_once(collection):
    records = add(collection, ("train", None, "", "a"), ("test", None, "", "a"))
    members = tuple(DuplicateMember(0, record.image_id, record.source, "identical", 1) for record in records)
    leaks = find_leaks(collection, "split", Duplicates((DuplicateGroup(members),), (), 1))
    assert kinds(leaks) == [("picture", ["/0.png", "/1.png"])]


def test_near_duplicates_leak_without_images_outside_of_the_split(collection):
    records = add(collection, ("train", None, "", "a"), (None, None, "", "b"), ("test", None, "", "c"))
    members = tuple(DuplicateMember(0, record.image_id, record.source, "gamma", 1) for record in records)
    leaks = find_leaks(collection, "split", Duplicates((DuplicateGroup(members),), (), 1))
    assert kinds(leaks) == [("near-duplicate", ["/0.png", "/2.png"])]


def test_a_label_that_no_image_has_is_refused(collection):
    add(collection, ("train", "p", "", "a"))
    with pytest.raises(InvalidInput, match="no image has the label fold"):
        find_leaks(collection, "fold", NONE)


def test_an_empty_collection_has_no_split(collection):
    with pytest.raises(InvalidInput, match="no image has the label split"):
        find_leaks(collection, "split", NONE)
