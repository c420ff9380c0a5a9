"""Images of an erased patient stay out, and nothing that identifies anyone is kept to achieve it."""

from pathlib import Path

import pytest

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.erasure import find_traces
from cbir.store.safety import last_good
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import MakeEntries
from tests.cbir.store.test_writer import bytes_of

KEY = "e" * 32


@pytest.fixture
def erased(collection: Collection, entries: MakeEntries) -> Collection:
    """A collection from which a patient's three images and one deleted earlier were erased."""
    with collection.writer() as writer:
        writer.add(entries(0, 10, patient="0" * 32))
        ids = writer.add(entries(10, 14, patient=KEY)).ids
        writer.finish()
        writer.delete(ids[3:])
        assert writer.erase_patient([KEY]) == 3
    return collection


def test_the_same_images_are_not_added_again(erased: Collection, entries: MakeEntries) -> None:
    with erased.writer() as writer:
        again = writer.add(entries(8, 16, patient=KEY))
        assert (again.deleted_earlier, again.duplicates, len(again.ids)) == (4, 2, 2)
        assert writer.add(entries(10, 14)).deleted_earlier == 4, "sent without the patient"
        writer.compact()
        assert writer.add(entries(10, 14, patient=KEY)).ids == ()
    assert len(erased) == 12


def test_restoring_brings_them_back_for_good(erased: Collection, entries: MakeEntries) -> None:
    with erased.writer() as writer:
        assert len(writer.add(entries(10, 12, patient=KEY), restore=True).ids) == 2
        assert writer.erase_patient([KEY]) == 2
        assert writer.add(entries(10, 12)).deleted_earlier == 2
        ids = writer.add(entries(10, 14), restore=True).ids
        assert len(ids) == 4
        writer.delete(ids)
        assert writer.add(entries(10, 14)).deleted_earlier == 4
    assert len(erased) == 10


def test_what_is_kept_names_neither_image_nor_patient(erased: Collection, entries: MakeEntries) -> None:
    erased.close()
    kept = bytes_of(erased.folder)
    assert KEY.encode() not in kept
    for record, vector in entries(10, 14):
        assert record.content_hash.encode() not in kept
        assert vector.tobytes() not in kept
    assert find_traces(erased, [KEY]) == []
    with erased._engine.connect() as connection:
        marks = connection.exec_driver_sql("SELECT mark FROM erased").scalars().all()
    assert len(marks) == 4


def test_marks_of_two_collections_do_not_match(
    erased: Collection, entries: MakeEntries, tmp_path: Path
) -> None:
    with Collection.create(tmp_path / "other", profiles.get("tamura")) as other:
        with other.writer() as writer:
            writer.add(entries(10, 14, patient=KEY))
            writer.erase_patient([KEY])
        query = "SELECT mark FROM erased"
        with erased._engine.connect() as ours, other._engine.connect() as theirs:
            marks = [set(one.exec_driver_sql(query).scalars()) for one in (ours, theirs)]
    assert len(marks[0] & marks[1]) == 0
    assert len(marks[1]) == 4


def test_erasing_the_last_patient_removes_what_a_kill_left(
    collection: Collection, entries: MakeEntries
) -> None:
    partial = collection.folder / last_good.PARTIAL
    with collection.writer() as writer:
        writer.add(entries(0, 5, patient=KEY))
        writer.finish()
        partial.mkdir()
        (partial / "collection.sqlite").write_bytes(b"all the patient's images " + KEY.encode())
        assert any("compact" in line for line in find_traces(collection, [KEY]))
        assert writer.erase_patient([KEY]) == 5
    assert not partial.exists()
    assert find_traces(collection, [KEY]) == []
    assert verify_collection(collection) == []


@pytest.mark.parametrize("again", ["erase", "compact"])
def test_both_remedies_of_remains_work(collection: Collection, entries: MakeEntries, again: str) -> None:
    with collection.writer() as writer:
        writer.add(entries(0, 5, patient=KEY))
        writer.finish()
        writer.erase_patient([KEY])
        partial = collection.folder / last_good.PARTIAL
        partial.mkdir()
        (partial / "collection.sqlite").write_bytes(KEY.encode())
        assert find_traces(collection, [KEY]) != []
        if again == "erase":
            writer.erase_patient([KEY])
        else:
            writer.compact()
    assert find_traces(collection, [KEY]) == []
