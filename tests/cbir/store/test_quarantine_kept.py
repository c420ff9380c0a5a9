"""The quarantine in backups: logged, restored as of any moment, and neither lost nor released by it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records import originals
from cbir.store.records.records import Entry, Record
from cbir.store.safety import last_good
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.backup_log import append_log
from cbir.store.upkeep.quarantine_release import (
    read_quarantined,
    read_quarantined_picture,
    refuse_images,
    release_images,
)
from cbir.store.upkeep.restore import restore_backup
from cbir.store.upkeep.verify import verify_collection

PATIENTS = "a" * 32, "b" * 32


def entry(number: int, source: str = "", patient: str = PATIENTS[0]) -> Entry:
    record = Record(
        f"{number:032x}",
        source or f"/images/{number}.png",
        "stamp",
        "png",
        9,
        9,
        labels={"intake": "text"},
        patient_key=patient,
    )
    return record, np.random.default_rng(number).random(80, np.float32)


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return Collection.create(tmp_path / "collection", profiles.get("edge_histogram"))


def quarantine_upload(collection: Collection, number: int) -> str:
    """Quarantine an image of an uploaded file; its id."""
    source = originals.store_original(collection.folder, b"file %d" % number)
    added = entry(number, source)
    with collection.writer("somebody") as writer:
        writer.held_pictures = {added[0].content_hash: b"jpeg"}
        writer.add([added], in_transaction=lambda transaction, _: transaction.note_originals([source]))
    return added[0].content_hash


def restored(backup: Path, folder: Path) -> Collection:
    restore_backup(backup, folder)
    return Collection(folder)


@pytest.mark.parametrize("earlier", [False, True], ids=["first", "further"])
def test_the_log_of_a_backup_has_the_quarantine(
    collection: Collection, tmp_path: Path, earlier: bool
) -> None:
    backup = tmp_path / "backup"
    first = [quarantine_upload(collection, 1)] if earlier else []
    back_up_collection(collection, backup, log=True)
    ids = sorted([*first, quarantine_upload(collection, 2), quarantine_upload(collection, 3)])
    with collection.writer() as writer:
        append_log(collection, backup)
    with restored(backup, tmp_path / "one") as copy:
        assert read_quarantined(copy) == read_quarantined(collection)
        assert [image.image_id for image in read_quarantined(copy)] == ids
        assert read_quarantined_picture(copy, ids[-1]) == b"jpeg"
        source = read_quarantined(copy)[-1].record.source
        assert originals.original_path(copy.folder, source).read_bytes() == b"file 3"
        assert len(copy) == 0
        assert verify_collection(copy) == []
    with collection.writer() as writer:
        release_images(writer, ids[-1:])
        refuse_images(writer, ids[-2:-1])
        append_log(collection, backup)
    with restored(backup, tmp_path / "two") as copy:
        assert [image.image_id for image in read_quarantined(copy)] == first
        assert copy.record(ids[-1]).labels == {}
        with copy.writer() as writer:
            assert writer.add([entry(2)]).outcomes == (("deleted earlier", None),)


def test_a_backup_without_a_log_has_the_quarantine(collection: Collection, tmp_path: Path) -> None:
    (image_id,) = [quarantine_upload(collection, 1)]
    back_up_collection(collection, tmp_path / "backup")
    with restored(tmp_path / "backup", tmp_path / "again") as copy:
        assert read_quarantined(copy) == read_quarantined(collection)
        with copy.writer() as writer:
            release_images(writer, [image_id])
        assert len(copy) == 1


def test_a_refused_image_leaves_the_last_good_copy_too(collection: Collection, tmp_path: Path) -> None:
    ids = [quarantine_upload(collection, number) for number in (1, 2)]
    record, vector = entry(3)
    with collection.writer() as writer:
        writer.add([(replace(record, labels={}), vector)])
        writer.finish()
        assert len(read_quarantined(Collection(collection.folder / last_good.NAME))) == 2
        refuse_images(writer, ids[:1])
    with restored(collection.folder / last_good.NAME, tmp_path / "copy") as copy, copy.writer() as writer:
        assert [image.image_id for image in read_quarantined(copy)] == ids[1:]
        assert writer.add([entry(1)]).outcomes == (("deleted earlier", None),)


def test_erasing_a_patient_keeps_the_quarantine_of_others(collection: Collection) -> None:
    quarantine_upload(collection, 1)
    with collection.writer() as writer:
        writer.held_pictures = {}
        writer.add([entry(2, patient=PATIENTS[1])])
        assert writer.erase_patient([PATIENTS[0]]) == 1
        assert [image.record.patient_key for image in read_quarantined(collection)] == [PATIENTS[1]]
        assert not list((collection.folder / originals.FOLDER).iterdir())
