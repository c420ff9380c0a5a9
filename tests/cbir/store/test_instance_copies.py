"""DICOM instances with a picture that another instance showed first."""

from dataclasses import replace

import pytest

from cbir.store import Collection
from cbir.store.records.records import Entry
from cbir.store.safety.row_damage import row_problems
from cbir.store.upkeep.archive_instances import (
    forget_copy,
    images_with_copies,
    images_with_pixels_of,
    move_copy,
    stored_copies,
)
from tests.cbir.store.conftest import entry

FIRST, COPY, OTHER = "1.2.1", "1.2.2", "1.2.3"
CT = "1.2.840.10008.5.1.4.1.1.2"


def shown_by(instance: str, content: int, patient: str) -> Entry:
    """The picture `content`, as an instance shows it."""
    record, vector = entry(content, patient)
    return replace(record, source=f"/{instance}", instance=instance, sop_class=CT), vector


def add_copies(collection: Collection) -> None:
    """One picture of three instances, two in one transaction; the last is of another patient."""
    with collection.writer() as writer:
        writer.add([shown_by(FIRST, 1, "a"), shown_by(COPY, 1, "a")])
        writer.add([shown_by(OTHER, 1, "b")])


def test_copies_are_known_until_their_picture_is_deleted(collection: Collection) -> None:
    add_copies(collection)
    assert len(collection) == 1
    assert collection.known_instances([FIRST, COPY, OTHER, "1.2.4", ""]) == {FIRST, COPY, OTHER}
    assert collection.sop_classes([COPY, "1.2.4"]) == {COPY: CT}
    with collection.writer() as writer:
        writer.delete([record.image_id for _, record in collection.iterate()])
    assert collection.known_instances([FIRST, COPY, OTHER]) == set()


def test_an_erased_patient_leaves_no_copies(collection: Collection) -> None:
    add_copies(collection)
    with collection.writer() as writer:
        assert writer.erase_patient(["b"]) == 0
        assert collection.known_instances([FIRST, COPY, OTHER]) == {FIRST, COPY}
        assert writer.erase_patient(["a"]) == 1
    assert collection.known_instances([FIRST, COPY, OTHER]) == set()
    kept = b"".join(path.read_bytes() for path in collection.folder.rglob("*") if path.is_file())
    assert OTHER.encode() not in kept


def test_a_copy_of_another_patient_is_named_and_moves(collection: Collection) -> None:
    with collection.writer() as writer:
        (image_id,) = writer.add([shown_by(FIRST, 1, "a")]).ids
        assert writer.add([shown_by(COPY, 1, "a"), shown_by(OTHER, 1, "b")]).other_patients == {1}
        assert images_with_pixels_of(collection, ["b"]) == [image_id]
        assert images_with_pixels_of(collection, ["a"]) == []
        assert images_with_copies(collection, [image_id, "none"]) == {image_id}
        move_copy(writer, OTHER, "a")
        assert images_with_pixels_of(collection, ["b"]) == []
        assert [copy.patient_key for copy in stored_copies(collection, "", 10)] == ["a", "a"]
        forget_copy(writer, OTHER)
        assert collection.known_instances([FIRST, COPY, OTHER]) == {FIRST, COPY}
    assert damage_of(collection) == []


def test_replaced_images_may_come_again(collection: Collection) -> None:
    with collection.writer() as writer:
        ids = writer.add([shown_by(FIRST, 1, "a"), shown_by(OTHER, 2, "b")]).ids
        added = writer.add([shown_by(FIRST, 3, "a")], replaces=[ids[0]])
        assert len(added.ids) == 1
        assert {record.image_id for _, record in collection.iterate()} == {ids[1], *added.ids}
        writer.add([], replaces=added.ids)
        assert writer.add([shown_by(FIRST, 1, "a")]).ids == (ids[0],)
    assert damage_of(collection) == []


def damage_of(collection: Collection) -> list[str]:
    with collection._engine.connect() as connection:
        return row_problems(connection)


def test_frames_that_the_collection_does_not_have_say_nothing_of_other_pictures(
    collection: Collection,
) -> None:
    def frame(number: int, content: int) -> Entry:
        record, vector = shown_by(COPY, content, "a")
        return replace(record, frame=number), vector

    with collection.writer() as writer:
        writer.add([shown_by(FIRST, 1, "a"), shown_by(OTHER, 1, "a")])
        writer.add([frame(1, 1), frame(2, 2)])  # a copy, and an image
    other = [frame(2, 9)[0], shown_by(OTHER, 8, "a")[0]]
    same = [
        frame(1, 1)[0],
        frame(2, 2)[0],
        frame(3, 9)[0],
        shown_by("1.9", 9, "a")[0],
        shown_by("", 9, "a")[0],
    ]
    assert collection.other_pictures(same[:2] + same[3:]) == set()
    assert collection.other_pictures([same[2]]) == set()
    assert collection.other_pictures(other) == {(each.instance, each.content_hash) for each in other}


@pytest.mark.parametrize("count", [1, 2])
def test_a_file_with_another_number_of_frames_than_one_shows_another_picture(
    collection: Collection, count: int
) -> None:
    single = shown_by(FIRST, 1, "a")
    several = [
        (replace(record, frame=n), vector)
        for n, (record, vector) in enumerate([single, shown_by(FIRST, 2, "a")])
    ]
    stored, sent = ([single], several) if count == 1 else (several, [shown_by(FIRST, 3, "a")])
    with collection.writer() as writer:
        writer.add(stored)
    others = collection.other_pictures([record for record, _ in sent])
    assert others == {(FIRST, sent[-1][0].content_hash)}
