"""A wrong key would give patients other keys: it stops everything that writes, erases, restores or verifies."""

import shutil
from pathlib import Path

import pydicom
import pytest
from pydicom.dataset import FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage

from cbir.errors import CollectionDamaged
from cbir.store import Collection
from cbir.store.base.collection_folder import MANIFEST_NAME as MANIFEST
from cbir.store.records.patient_key import KEY_CHECK
from cbir.store.records.records import Entry, hash_patient
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.restore import restore_backup
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import MakeEntries, entry
from tests.earlier_backups import forget_manifest


def flip(path: Path) -> None:
    """Change a digit of a key file to another one, without a link to it noticing."""
    text = path.read_text()
    path.unlink()
    path.write_text(f"{(int(text[5], 16) ^ 1):x}".join((text[:5], text[6:])))


def forget_check(folder: Path) -> None:
    """Make a collection and its last good copy as earlier versions did."""
    for place in (folder, folder / "last-good"):
        if (place / "collection.sqlite").exists():
            with Collection(place) as opened, opened._engine.begin() as connection:
                connection.exec_driver_sql("DELETE FROM meta WHERE key = ?", (KEY_CHECK,))
            (place / MANIFEST).unlink(missing_ok=True)


def stored_check(collection: Collection) -> object:
    with collection._engine.connect() as connection:
        return connection.exec_driver_sql("SELECT value FROM meta WHERE key = ?", (KEY_CHECK,)).scalar()


def dicom_entry(path: Path, number: int, patient: str, secret: bytes) -> Entry:
    """Write a DICOM file of a patient; return the entry of its image."""
    dataset = pydicom.Dataset()
    dataset.PatientID = patient
    dataset.SOPClassUID = SecondaryCaptureImageStorage
    dataset.SOPInstanceUID = pydicom.uid.generate_uid()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.save_as(path, enforce_file_format=True)
    record, vector = entry(number, hash_patient(secret, patient))
    status = path.stat()
    stamp = f"{status.st_size}-{status.st_mtime_ns}"
    changed = {"source": str(path), "source_stamp": stamp, "format": "dicom"}
    return record.__class__(**{**record.__dict__, **changed}), vector


@pytest.fixture
def full(collection: Collection, entries: MakeEntries) -> Collection:
    with collection.writer() as writer:
        key = hash_patient(collection.secret, "PAT3")
        writer.add([*entries(0, 10), *entries(10, 14, key)])
        writer.compact()
    return collection


def test_a_foreign_key_stops_everything_before_it_changes_anything(full: Collection, tmp_path: Path) -> None:
    flip(full.folder / "patient.key")
    database = (full.folder / "collection.sqlite").read_bytes()
    with Collection(full.folder) as opened:
        with pytest.raises(
            CollectionDamaged, match=r"not the key .*`cp .*last-good/patient.key .*` restores"
        ):
            opened.writer().__enter__()
        with pytest.raises(CollectionDamaged, match="not the key"):
            opened.secret  # noqa: B018 - what searches by a patient's identifier ask for
        with pytest.raises(CollectionDamaged, match="not the key"):
            back_up_collection(opened, tmp_path / "backup")
        assert "not the key" in verify_collection(opened)[0]
        assert len(opened.view().gallery) == 14  # searches that need no key go on
    assert (full.folder / "collection.sqlite").read_bytes() == database
    shutil.copy(full.folder / "last-good" / "patient.key", full.folder)
    with Collection(full.folder) as opened:
        assert not verify_collection(opened)


def test_a_missing_key_is_named_with_what_restores_it(full: Collection) -> None:
    (full.folder / "patient.key").unlink()
    with (
        Collection(full.folder) as opened,
        pytest.raises(CollectionDamaged, match=r"missing .*`cp .*last-good"),
    ):
        opened.writer().__enter__()
    shutil.rmtree(full.folder / "last-good")
    with (
        Collection(full.folder) as opened,
        pytest.raises(CollectionDamaged, match=r"`cp BACKUP/patient\.key"),
    ):
        opened.writer().__enter__()


def test_erased_images_stay_out_with_another_key(full: Collection, entries: MakeEntries) -> None:
    key = hash_patient(full.secret, "PAT3")
    with full.writer() as writer:
        assert writer.erase_patient([key]) == 4
    flip(full.folder / "patient.key")
    with Collection(full.folder) as opened:
        with pytest.raises(CollectionDamaged), opened.writer() as writer:
            writer.add(entries(10, 14))
        assert len(opened) == 10


@pytest.mark.parametrize("manifest", [True, False])
def test_a_backup_with_another_key_is_not_restored(full: Collection, tmp_path: Path, manifest: bool) -> None:
    back_up_collection(full, tmp_path / "backup")
    flip(tmp_path / "backup" / "patient.key")
    if not manifest:
        forget_manifest(tmp_path / "backup")
    with pytest.raises(CollectionDamaged, match=r"patient.key" if manifest else "not the key"):
        restore_backup(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_an_old_collection_gets_the_hash_of_its_key(full: Collection, entries: MakeEntries) -> None:
    forget_check(full.folder)
    with Collection(full.folder) as opened:
        assert stored_check(opened) is None
        assert not verify_collection(opened)
        with opened.writer() as writer:
            writer.add(entries(20, 21))
        assert stored_check(opened)
    flip(full.folder / "patient.key")
    with Collection(full.folder) as opened, pytest.raises(CollectionDamaged, match="not the key"):
        opened.writer().__enter__()


def test_an_old_backup_gets_the_hash_of_its_key(full: Collection, tmp_path: Path) -> None:
    forget_check(full.folder)
    with Collection(full.folder) as opened:
        back_up_collection(opened, tmp_path / "backup")
    with Collection(tmp_path / "backup") as backup:
        assert stored_check(backup)


def test_the_copys_key_gives_away_a_wrong_one_in_an_old_collection(full: Collection) -> None:
    forget_check(full.folder)
    flip(full.folder / "patient.key")
    with Collection(full.folder) as opened:
        with pytest.raises(CollectionDamaged, match=r"differ: one is damaged.*--trust-key"):
            opened.writer().__enter__()
        assert stored_check(opened) is None
        assert "differ" in verify_collection(opened)[0]
        opened.trust_key()
        assert stored_check(opened)


@pytest.mark.parametrize("copy", [True, False])
def test_files_of_patients_tell_the_key_of_an_old_collection(
    collection: Collection, tmp_path: Path, copy: bool
) -> None:
    files = [tmp_path / f"{number}.dcm" for number in range(3)]
    with collection.writer() as writer:
        writer.add([dicom_entry(path, n, f"PAT{n}", collection.secret) for n, path in enumerate(files)])
        writer.compact()
    forget_check(collection.folder)
    flip(collection.folder / "patient.key")
    if not copy:
        shutil.copy(collection.folder / "patient.key", collection.folder / "last-good")
    expected = "`cp .*last-good/patient.key .*` restores" if copy else "do not come from its key file"
    with Collection(collection.folder) as opened, pytest.raises(CollectionDamaged, match=expected):
        opened.writer().__enter__()
    flip(collection.folder / "patient.key")  # the sound one again
    flip(collection.folder / "last-good" / "patient.key") if copy else None
    with Collection(collection.folder) as opened, opened.writer():
        assert stored_check(opened)


def test_a_wrong_key_of_an_old_collection_gives_no_copy_its_hash(full: Collection, tmp_path: Path) -> None:
    forget_check(full.folder)
    flip(full.folder / "patient.key")
    with Collection(full.folder) as opened, pytest.raises(CollectionDamaged, match="differ"):
        opened.secret  # noqa: B018 - as `cbir collection redescribe` reads it


def test_the_database_of_another_collection_is_named(full: Collection, tmp_path: Path) -> None:
    other = Collection.create(tmp_path / "other", full.profile)
    other.close()
    full.close()
    shutil.copy(other.folder / "collection.sqlite", full.folder)
    with Collection(full.folder) as opened:
        (problem,) = verify_collection(opened)  # and none that `compact` would take for damage of the copy
        assert "is that of another collection" in problem
        assert "collection restore" in problem
        with pytest.raises(CollectionDamaged, match="another collection"):
            opened.writer().__enter__()


def test_a_damaged_hash_of_the_key_can_be_repaired(full: Collection) -> None:
    from cbir.store.upkeep.repair import repair_rows

    with full._engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER guard_update_meta") if _has_guard(connection) else None
        connection.exec_driver_sql("UPDATE meta SET value = 'x' || value WHERE key = ?", (KEY_CHECK,))
    with Collection(full.folder) as opened:
        assert "key_check" in verify_collection(opened)[0]
        with opened.writer():
            assert "key_check" in repair_rows(opened).restored[0]
        assert not verify_collection(opened)


def _has_guard(connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = 'guard_update_meta'"
    return connection.exec_driver_sql(query).first() is not None
