"""Carrying over between collections of which one has erased patients, deleted images or images of its own."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cbir.store import Collection
from cbir.store.base import stored_models
from cbir.store.base.profile import Profile
from cbir.store.upkeep.carry_over import CarryOver, open_counterpart
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.test_carry_over import OTHER, PATIENT, PROFILE, rows, traces_of, vector


def carry(
    source: Collection, folder: Path, without: Sequence[int] = (), profile: Profile = PROFILE
) -> CarryOver:
    """Carry images over, but those numbers `without` a file."""
    with open_counterpart(source, folder, profile) as target, target.writer() as writer:
        carry_over = CarryOver(source, target, writer)
        carry_over.update()
        missing = [image.number for image in carry_over.missing_images()]
        length = profile.load_descriptor().dimensions
        carry_over.add({number: vector(number)[:length] for number in missing if number not in without})
        carry_over.update()
        carry_over.finish()
        writer.finish()
        assert verify_collection(target) == []
        return carry_over


def back(folder: Path, collection: Collection, without: Sequence[int] = ()) -> CarryOver:
    """Carry images from the folder back to the collection."""
    with Collection(folder) as source:
        return carry(source, collection.folder, without, collection.profile)


def erase(folder: Path, key: str = PATIENT) -> None:
    with Collection(folder) as collection, collection.writer() as writer:
        writer.erase_patient([key])


def traces(folder: Path, key: str = PATIENT) -> list[str]:
    return traces_of(folder, key)


def test_going_back_keeps_images_that_the_other_never_had(collection, entries, folder):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 6)).ids
        writer.finish()
    carry(collection, folder, without=[6])
    for _ in range(2):
        last_good = collection.is_local and (collection.folder / "last-good").stat().st_ino
        assert back(folder, collection).kept == [ids[5]]
        assert len(collection) == 6
        if last_good:
            assert (collection.folder / "last-good").stat().st_ino == last_good  # was not erased from


def test_going_back_removes_what_was_deleted_meanwhile(collection, entries, folder):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 6)).ids
        writer.delete(ids[5:])
        writer.add(entries(5, 6), restore=True)
    carry(collection, folder, without=[7])
    with Collection(folder) as other, other.writer() as writer:
        writer.delete(ids[:2])
    assert back(folder, collection).kept == [ids[5]]  # deleted once, but before it was added again
    assert {record.image_id for _, record in collection.iterate()} == set(ids[2:])


@pytest.mark.parametrize("pruned", [{"history_days": 0}, {"deleted_days": 0}])
def test_either_list_of_deletions_suffices(collection, entries, folder, pruned):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 6)).ids
    carry(collection, folder)
    with collection.writer() as writer:
        writer.delete(ids[:2])
        writer.compact(**pruned)
    assert carry(collection, folder).kept == []
    with Collection(folder) as target:
        assert len(target) == 4


def test_own_images_of_the_target_stay_when_its_history_is_pruned(collection, entries, folder):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 5)).ids
    carry(collection, folder)
    with Collection(folder) as target, target.writer() as writer:
        ((record, _),) = entries(9, 10)
        added = writer.add([(record, vector(9))]).ids
        writer.compact(history_days=0)
    with collection.writer() as writer:
        writer.set_labels(ids[0], {"a": "b"})
    assert carry(collection, folder).kept == list(added)
    with Collection(folder) as target:
        assert len(target) == 6


def test_an_image_indexed_into_the_other_keeps_its_vector_when_going_back(collection, entries, folder):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 6)).ids
        writer.finish()
    before = collection.vector(ids[5])
    carry(collection, folder, without=[6])
    with Collection(folder) as other, other.writer() as writer:
        ((record, _),) = entries(5, 6)
        assert writer.add([(record, vector(9))]).numbers == {ids[5]: 7}
    assert back(folder, collection, without=[7]).kept == []
    np.testing.assert_array_equal(collection.vector(ids[5]), before)
    assert [row[0] for row in rows(collection.folder, "images")] == [1, 2, 3, 4, 5, 7]
    assert len(collection.view()) == 6


@pytest.mark.parametrize("deleted", [1, 3])
def test_who_is_erased_in_the_target_does_not_return(collection, entries, folder, deleted):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 3, PATIENT)).ids
        writer.add(entries(3, 10))
        writer.delete(ids[:deleted])
        writer.set_labels(ids[-1], {"a": "b"})
        writer.finish()
    ranker = collection.folder / stored_models.SEVERITY_FOLDER
    ranker.mkdir()
    (ranker / "x").write_text("learnt from all")
    carry(collection, folder, without=[3])
    assert (folder / stored_models.SEVERITY_FOLDER / "x").exists()
    erase(folder)
    stored_models.drop_severity_model(folder)
    for _ in range(2):
        carry_over = carry(collection, folder)
        assert traces(folder) == []
        assert rows(folder, "forgotten") == rows(folder, "changed_images") == []
        assert not (folder / stored_models.SEVERITY_FOLDER).exists()
        assert len(carry_over.erased_in_target) == 3 - deleted
    with collection.writer() as writer:
        writer.delete(ids)
    carry(collection, folder)
    assert traces(folder) == []
    erase(collection.folder)
    carry(collection, folder)
    assert carry(collection, folder).erased_in_target == []


def test_patients_erased_in_either_do_not_make_changes_own(collection, entries, folder):
    with collection.writer() as writer:
        ids = [*writer.add(entries(0, 2, PATIENT)).ids, *writer.add(entries(2, 9, OTHER)).ids]
        ids += writer.add(entries(9, 12)).ids
        writer.delete([ids[0], ids[2], ids[9]])
    carry(collection, folder)
    erase(folder)
    erase(collection.folder, OTHER)
    carry(collection, folder)
    assert traces(folder) == traces(folder, OTHER) == []


def test_an_erased_patient_does_not_survive_in_what_the_other_never_had(collection, entries, folder):
    with collection.writer() as writer:
        writer.add(entries(0, 3, PATIENT))
        writer.add(entries(3, 10))
    carry(collection, folder, without=[3])
    erase(folder)
    assert back(folder, collection).kept == []
    assert traces(collection.folder) == []
    with collection.writer() as writer:
        assert writer.add(entries(0, 3, PATIENT)).deleted_earlier == 3


def test_what_is_restored_in_the_source_after_erasing_comes_again(collection, entries, folder):
    with collection.writer() as writer:
        writer.add(entries(0, 3, PATIENT))
        writer.add(entries(3, 10))
    carry(collection, folder)
    erase(collection.folder)
    carry(collection, folder)
    with collection.writer() as writer:
        writer.add(entries(0, 2, PATIENT), restore=True)
    assert carry(collection, folder).erased_in_target == []
    with Collection(folder) as target:
        assert len(target) == len(collection) == 9
    assert rows(folder, "erased") == rows(collection.folder, "erased")
    erase(folder)  # from now on they are the target's own
    assert len(carry(collection, folder).erased_in_target) == 2
    assert traces(folder) == []


def test_a_source_restored_from_an_older_backup_brings_nobody_back(collection, entries, folder, tmp_path):
    with collection.writer() as writer:
        ids = [*writer.add(entries(0, 3, PATIENT)).ids, *writer.add(entries(3, 10)).ids]
        writer.finish()
    carry(collection, folder)
    backup = Path(shutil.copytree(collection.folder, tmp_path / "backup"))
    erase(collection.folder)
    carry(collection, folder)
    with Collection(backup) as older:
        with older.writer() as writer:
            writer.set_labels(ids[5], {"a": "b"})  # under the number of the erasure
        for _ in range(2):
            assert len(carry(older, folder).erased_in_target) == 3
            assert traces(folder) == []


def test_a_copied_ranker_is_whole(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / stored_models.SEVERITY_FOLDER).mkdir(parents=True)
    (source / stored_models.SEVERITY_FOLDER / "x").write_text("whole")
    (target / stored_models.PARTIAL_SEVERITY).mkdir(parents=True)
    (target / stored_models.PARTIAL_SEVERITY / "y").write_text("left by an interrupted copy")
    stored_models.copy_severity_model(source, target)
    assert [path.relative_to(target).as_posix() for path in target.rglob("*")] == ["severity", "severity/x"]


def test_a_dicom_instance_that_is_erased_in_the_target_does_not_return(collection, entries, folder):
    ((record, values),) = entries(0, 1, OTHER)
    record = replace(record, instance="1.2.3.4", sop_class="1.5")
    copy = replace(record, instance="1.2.3.5", source="/images/copy.dcm", patient_key=PATIENT)
    with collection.writer() as writer:
        writer.add([(record, values), *entries(1, 6)])
        writer.add([(copy, values)])
    carry(collection, folder)
    assert traces(folder)
    erase(folder)
    for _ in range(2):
        carry(collection, folder)
        assert traces(folder) == []
    assert len(rows(collection.folder, "instance_copies")) == 1
