"""Files of codes that a second process replaces, or that a disk no longer gives."""

import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from cbir.errors import CollectionBusy
from cbir.gallery.code_index import CodeIndex
from cbir.search.view_vectors import EVERYTHING, ViewVectors
from cbir.store import Collection
from cbir.store.snapshot.snapshot import file_checksum
from cbir.store.upkeep import verify
from cbir.store.upkeep.verify import verify_collection
from cbir.store.views import snapshot_build, view_cache
from cbir.store.writing.writer import Writer
from tests.cbir.store.conftest import MakeEntries, entry

CHANGES = 6  # of the collection, while another process searches
K = 5


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a snapshot of 50 images be a large one."""
    monkeypatch.setattr(snapshot_build, "CODES_FROM", 50)


@pytest.fixture
def filled(collection: Collection, entries: MakeEntries) -> Collection:
    """200 images of one patient and 20 of another, with a snapshot."""
    with collection.writer() as writer:
        writer.add(entries(0, 200, patient="kept"))
        writer.add(entries(200, 220, patient="erased"))
        writer.finish()
    return collection


def erase(writer: Writer) -> None:
    """Erase the patient, and so replace all files."""
    with suppress(CollectionBusy):  # the files are replaced; readers hold old pages of the database
        writer.erase_patient(["erased"])


def erasing_once(collection: Collection) -> Callable[[], None]:
    """Return a function that erases the patient when it is called first."""
    calls = count()

    def erase_at_first() -> None:
        if not next(calls):
            with collection.writer() as writer:
                erase(writer)

    return erase_at_first


def test_a_file_that_goes_while_a_view_is_opened_is_followed(
    filled: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, read = erasing_once(filled), view_cache.read_codes

    def read_too_late(path: Path, *facts: object) -> CodeIndex:
        replace()
        return read(path, *facts)  # type: ignore[arg-type]

    monkeypatch.setattr(view_cache, "read_codes", read_too_late)
    with Collection(filled.folder) as reader:
        view = reader.view()
        assert reader.snapshot_problem is None
        assert len(view) == 200
        assert isinstance(view.gallery.flat_index, CodeIndex)
        assert len(view.gallery.flat_index) == 200


def test_a_file_that_goes_while_it_is_verified_is_no_damage(
    filled: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = erasing_once(filled)

    def sum_too_late(path: Path) -> str:
        replace()
        return file_checksum(path)

    monkeypatch.setattr(verify, "file_checksum", sum_too_late)
    with Collection(filled.folder) as reader:
        assert verify_collection(reader) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a file that fails when it is read")
def test_files_on_a_disk_that_fails_are_told_and_written_again(filled: Collection) -> None:
    for suffix in (".neighbours", ".codes"):
        (path,) = (filled.folder / "snapshots").glob(f"*{suffix}")
        path.unlink()
        path.symlink_to("/proc/self/mem")  # EIO
    with Collection(filled.folder) as reader:
        problems = verify_collection(reader)
        assert [problem.split()[1] for problem in problems] == ["neighbours", "codes"]
        assert all("`cbir collection compact` writes it again" in problem for problem in problems)
        assert reader.view().gallery.flat_index is not None
        assert reader.snapshot_problem is not None
        with reader.writer() as writer:
            writer.compact()
        assert verify_collection(reader) == []
        reader.view()
        assert reader.snapshot_problem is None


def search_for_ever(folder: Path, pipe: Connection) -> None:
    """Search, and compare with all vectors of the same view, until `pipe` says None.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    pipe : Connection
        Gives numbers of images that are gone. Gets an answer to each of them, and to the first search; at last what
        was wrong, and how many snapshots were searched.
    """
    gone: list[int] = []
    wrong: list[str] = []
    snapshots = set()
    random = np.random.default_rng(0)
    with Collection(folder) as reader:
        behind = ViewVectors(reader)
        told: list[int] | None = []
        searches = 0
        while told is not None:
            vectors = behind.for_search()
            view, index = vectors.view, vectors.view.gallery.flat_index
            query = view.statistics.normalise(random.normal(5.0, 2.0, 6).astype(np.float32))
            answer = vectors.nearest(query[None], K, EVERYTHING)[0].numbers
            rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
            nearest = rows[np.argsort(view.gallery.distances(query, rows), kind="stable")[:K]]
            if answer.tolist() != view.gallery.ids[nearest].tolist():
                wrong.append(f"{answer} are not the nearest in generation {view.generation}")
            if np.isin(gone, view.gallery.ids[rows]).any() or np.isin(gone, answer).any():
                wrong.append(f"images that are gone are in generation {view.generation}")
            if reader.snapshot_problem or not isinstance(index, CodeIndex):
                wrong.append(f"{reader.snapshot_problem} in generation {view.generation}")
            snapshots.add(view.snapshot_generation)
            if told or not searches:
                pipe.send("searched")
            searches += 1
            told = pipe.recv() if pipe.poll() else []
            gone += told or []
    pipe.send((wrong, len(snapshots)))


def test_another_process_searches_the_present_file_alone(filled: Collection, entries: MakeEntries) -> None:
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=search_for_ever, args=(filled.folder, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.recv() == "searched"
        for number in range(CHANGES):
            with filled.writer() as writer:
                new = writer.add([entry(300 + number * 10 + each, "erased") for each in range(10)]).ids
                writer.compact()
                numbers = sorted(number for number, image_id in filled.image_ids().items() if image_id in new)
                if number % 2:
                    writer.delete(new)
                    writer.compact()
                else:
                    erase(writer)
            ours.send(numbers)
            assert ours.recv() == "searched"
        ours.send(None)
        wrong, snapshots = ours.recv()
    finally:
        process.kill()
        process.join()
    assert wrong == []
    assert snapshots > CHANGES
