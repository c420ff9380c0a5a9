"""Originals of images: a lost one is noticed, and every state that can be restored has its own."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cbir.errors import CollectionDamaged
from cbir.store import Collection
from cbir.store.base import stored_models
from cbir.store.records import originals
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.safety.last_good import NAME as COPY
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.backup_log import append_log
from cbir.store.upkeep.restore import restore_backup
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry

FILE = b"a file as it was sent"


def send(collection: Collection, number: int, data: bytes, keep: bool = True) -> str:
    """Add an image as it is added when a file is sent; return its id."""
    record, vector = entry(number)
    sent = replace(record, source=originals.source_of(data))

    def attach(transaction: AddTransaction, _added: Added) -> None:
        if keep:
            transaction.note_originals([originals.store_original(collection.folder, data)])

    with collection.writer() as writer:
        (image_id,) = writer.add([(sent, vector)], in_transaction=attach).ids
    return image_id


def stored(folder: Path, data: bytes = FILE) -> Path:
    path = originals.original_path(folder, originals.source_of(data))
    assert path is not None
    return path


def noted(collection: Collection) -> int:
    with collection._engine.connect() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM originals").scalar() or 0


def test_a_lost_original_is_noticed(collection: Collection, tmp_path: Path) -> None:
    image_id = send(collection, 1, FILE)
    send(collection, 2, b"another, which was not to be kept", keep=False)
    assert verify_collection(collection) == []
    stored(collection.folder).unlink()
    (problem,) = verify_collection(collection)
    assert problem.startswith(f"1 originals ({image_id}) are missing")
    with pytest.raises(CollectionDamaged, match="missing"):
        back_up_collection(collection, tmp_path / "backup")
    with collection.writer() as writer:
        writer.delete([image_id])
    assert verify_collection(collection) == []


def test_deleting_and_erasing_forget_originals(collection: Collection) -> None:
    image_id = send(collection, 1, FILE)
    with collection.writer() as writer:
        writer.delete([image_id])
    assert noted(collection) == 0
    assert not stored(collection.folder).exists()
    (record, vector), data = entry(2, "e" * 32), b"of a patient"
    sent = replace(record, source=originals.source_of(data))
    with collection.writer() as writer:
        writer.add(
            [(sent, vector)],
            in_transaction=lambda transaction, _: transaction.note_originals(
                [originals.store_original(collection.folder, data)]
            ),
        )
        writer.erase_patient(["e" * 32])
    assert noted(collection) == 0
    assert not stored(collection.folder, data).exists()
    kept = b"".join(path.read_bytes() for path in collection.folder.rglob("*") if path.is_file())
    assert sent.source.removeprefix(originals.UPLOAD).encode() not in kept


def test_a_file_added_and_deleted_between_two_appends_is_restored(
    collection: Collection, tmp_path: Path
) -> None:
    back_up_collection(collection, tmp_path / "backup", log=True)
    image_id = send(collection, 1, FILE)
    there = datetime.now(UTC)
    time.sleep(0.01)
    with collection.writer() as writer:
        writer.delete([image_id])
        writer.compact()
        append_log(collection, tmp_path / "backup")
    assert not stored(collection.folder).exists()
    restore_backup(tmp_path / "backup", tmp_path / "restored", there)
    assert stored(tmp_path / "restored").read_bytes() == FILE
    with Collection(tmp_path / "restored") as restored:
        assert noted(restored) == 1


@pytest.fixture
def with_copy(collection: Collection) -> Collection:
    """Images with originals, a ranker and a last good copy."""
    with collection.writer() as writer:
        writer.add([entry(number) for number in range(9)])
    send(collection, 20, FILE)
    send(collection, 21, b"another file")
    (collection.folder / stored_models.SEVERITY_FOLDER).mkdir()
    (collection.folder / stored_models.SEVERITY_FOLDER / "ranker").write_bytes(b"learnt")
    with collection.writer() as writer:
        writer.compact()
    return collection


def test_the_last_good_copy_is_restored_with_all_files(with_copy: Collection, tmp_path: Path) -> None:
    result = restore_backup(with_copy.folder / COPY, tmp_path / "restored")
    assert (result.images, result.missing_originals) == (11, 0)
    assert stored(tmp_path / "restored").read_bytes() == FILE
    assert (tmp_path / "restored" / stored_models.SEVERITY_FOLDER / "ranker").read_bytes() == b"learnt"
    with Collection(tmp_path / "restored") as restored:
        assert verify_collection(restored) == []
        assert noted(restored) == 2


@pytest.mark.parametrize("damage", ["lost", "changed"])
def test_the_last_good_copy_is_restored_without_a_lost_original(
    with_copy: Collection, tmp_path: Path, damage: str
) -> None:
    if damage == "lost":
        stored(with_copy.folder).unlink()
    else:
        stored(with_copy.folder).write_bytes(b"something else")
    result = restore_backup(with_copy.folder / COPY, tmp_path / "restored")
    assert (result.images, result.missing_originals) == (11, 1)
    assert not stored(tmp_path / "restored").exists()
    with Collection(tmp_path / "restored") as restored:
        assert verify_collection(restored) == []


def test_a_backup_without_an_original_is_refused(with_copy: Collection, tmp_path: Path) -> None:
    back_up_collection(with_copy, tmp_path / "backup")
    stored(tmp_path / "backup").unlink()
    with pytest.raises(CollectionDamaged, match="missing"):
        restore_backup(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
