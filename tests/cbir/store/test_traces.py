"""That nothing is left of an erased patient, in any file, and that what is left is found."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cbir.api.main import app as commands
from cbir.store import Collection, erasure
from cbir.store.base import stored_models
from cbir.store.erasure import find_traces
from cbir.store.records import originals
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.records.records import hash_patient
from cbir.store.safety.last_good import NAME as COPY
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.backup_log import append_log
from cbir.store.upkeep.verify import verify_collection
from cbir.store.writing.writer import Writer
from tests.cbir.store.conftest import MakeEntries, entry
from tests.cbir.store.test_writer import bytes_of

pytestmark = pytest.mark.usefixtures("large_snapshots")
FILE, PICTURE = b"a whole DICOM file with its header", b"a thumbnail of somebody"


@pytest.fixture
def key(collection: Collection) -> str:
    found = hash_patient(collection.secret, "Jane Doe")
    assert found
    return found


@pytest.fixture
def full(collection: Collection, entries: MakeEntries, key: str) -> Collection:
    """Forty images of others, and two of the patient: one with an original, a thumbnail and grades, one deleted."""
    (sent, vector), (other, other_vector) = entry(40, key), entry(41, key)
    sent = sent.__class__(
        **{**sent.__dict__, "source": originals.source_of(FILE), "labels": {"severity": "0.5"}}
    )

    def attach(transaction: AddTransaction, added: Added) -> None:
        transaction.store_thumbnails(dict.fromkeys(added.numbers.values(), PICTURE))
        originals.store_original(collection.folder, FILE)

    with collection.writer() as writer:
        writer.add(entries(0, 40, patient="0" * 32))
        writer.add([(sent, vector)], in_transaction=attach)
        writer.set_grade_model("severity", "{}")
        deleted = writer.add([(other, other_vector)]).ids
        writer.finish()
        writer.delete(deleted)
    (collection.folder / stored_models.SEVERITY_FOLDER).mkdir()
    (collection.folder / stored_models.SEVERITY_FOLDER / "ranker").write_bytes(b"learnt from somebody too")
    return collection


def erase(collection: Collection, key: str) -> None:
    with collection.writer() as writer:
        assert writer.erase_patient([key]) == 1


def test_every_trace_goes_from_every_file(full: Collection, key: str) -> None:
    vectors = [entry(number)[1].astype("<f4").tobytes() for number in (40, 41)]
    hashes = [entry(number)[0].content_hash.encode() for number in (40, 41)]
    marks = [key.encode(), FILE, PICTURE, b"learnt from somebody too", *vectors, *hashes]
    before = bytes_of(full.folder)
    assert all(mark in before for mark in marks)
    named = [line for line in find_traces(full, [key]) if "still contains the patient's key" in line]
    assert {line.partition("/")[0].partition("-wal")[0].partition(" ")[0] for line in named} == {
        "collection.sqlite",
        COPY,
    }
    erase(full, key)
    assert find_traces(full, [key]) == []
    assert verify_collection(full) == []
    after = bytes_of(full.folder)
    assert not any(mark in after for mark in marks)
    assert full.graded_labels() == []


def test_neighbours_and_normalised_vectors_are_those_of_the_others_alone(
    full: Collection, key: str, tmp_path: Path, entries: MakeEntries
) -> None:
    erase(full, key)
    alone = Collection.create(tmp_path / "alone", full.profile)
    with alone.writer() as writer:
        writer.add(entries(0, 40, patient="0" * 32))
        writer.finish()
    ours, theirs = (sorted((one.folder / "snapshots").iterdir()) for one in (full, alone))
    names = [".codes", ".index", ".neighbours"]
    assert [path.suffix for path in ours] == [path.suffix for path in theirs] == names
    for one, other in zip(ours, theirs, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert full.statistics().to_json() == alone.statistics().to_json()


def _put_back_the_copy(full: Collection, kept: Path) -> None:
    shutil.rmtree(full.folder / COPY)
    shutil.copytree(kept / COPY, full.folder / COPY)


def _put_back_a_snapshot(full: Collection, kept: Path) -> None:
    for path in (kept / "snapshots").iterdir():
        shutil.copy(path, full.folder / "snapshots" / f"0{path.name}")


def _put_back_an_original(full: Collection, _kept: Path) -> None:
    originals.store_original(full.folder, FILE)


@pytest.mark.parametrize(
    ("put_back", "said"),
    [
        (_put_back_the_copy, f"{COPY} shows 1 images that are not in the collection"),
        (_put_back_a_snapshot, "is of an earlier state"),
        (_put_back_an_original, "1 files in originals belong to no image"),
    ],
)
def test_what_is_left_is_told_and_compacting_removes_it(
    full: Collection, key: str, tmp_path: Path, put_back, said: str
) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(full.folder, kept)
    erase(full, key)
    put_back(full, kept)
    found = find_traces(full, [key])
    assert any(said in line for line in found)
    assert key not in "".join(found)
    with full.writer() as writer:
        assert isinstance(writer, Writer)
        writer.compact()
    assert find_traces(full, [key]) == []


def test_files_of_sqlite_that_go_meanwhile_are_no_error(full: Collection, key: str, monkeypatch) -> None:
    erase(full, key)
    log = full.folder / "collection.sqlite-passing"
    log.write_bytes(b"pages")

    def removing(path: Path, pattern: bytes) -> bool:
        log.unlink(missing_ok=True)
        return contains(path, pattern)

    contains = erasure._contains
    monkeypatch.setattr(erasure, "_contains", removing)
    assert find_traces(full, [key]) == []


def test_a_key_in_the_log_of_changes_is_found(full: Collection, key: str, tmp_path: Path) -> None:
    back_up_collection(full, tmp_path / "backup", log=True)
    with full.writer() as writer:
        writer.add([entry(50, key)])
    with full._engine.connect() as connection:
        logged = "\n".join(
            connection.exec_driver_sql("SELECT row FROM change_log WHERE row NOT NULL").scalars()
        )
    with full.writer() as writer:
        assert writer.erase_patient([key]) == 2
    assert find_traces(full, [key]) == []
    assert key not in logged
    (full.folder / "left.sqlite").write_text(logged)
    (trace,) = find_traces(full, [key])
    assert trace.startswith("left.sqlite")


def test_originals_that_wait_for_an_append_are_told(full: Collection, tmp_path: Path) -> None:
    back_up_collection(full, tmp_path / "backup", log=True)
    with full.writer() as writer:
        writer.delete([entry(40)[0].content_hash])
        (trace,) = find_traces(full, [])
        assert "backup --append" in trace
        append_log(full, tmp_path / "backup")
        assert find_traces(full, []) == []


def verify_erased(collection: Collection) -> tuple[int, str]:
    options = ["collection", "verify", "--collection", str(collection.folder), "--erased", "Jane Doe"]
    result = CliRunner().invoke(commands, options)
    return result.exit_code, result.stdout


def test_traces_are_searched_for_beside_other_problems(full: Collection, key: str) -> None:
    erase(full, key)
    assert verify_erased(full) == (0, "no problems\n")
    with full._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE vectors SET vector = zeroblob(24) WHERE number = 3")
    (full.folder / "left").write_text(key)
    code, said = verify_erased(full)
    assert code == 1
    assert "do not match their checksums" in said
    assert "left still contains the patient's key" in said


def test_a_search_for_traces_that_damage_ends_says_so(full: Collection, key: str) -> None:
    erase(full, key)
    (full.folder / "patient.key").write_text("no key")
    code, said = verify_erased(full)
    assert code == 1
    assert "the search for traces of the patient did not end" in said
