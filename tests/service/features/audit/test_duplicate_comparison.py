"""Reading and comparison by processes, which find what threads find, and die without a trace."""

import multiprocessing
import os
import shutil
import signal

import numpy as np
import pytest

from cbir.errors import CbirError, NotFound
from cbir.evaluation.datasets.phantoms import draw_phantom
from cbir.store import Collection
from cbir.store.base import profile as profiles
from service.features.audit import duplicate_pictures, duplicate_proof, picture_signatures
from service.features.audit.duplicate_candidates import PlacedPairs
from service.features.audit.duplicate_pictures import SIDE, PictureReader, Squares
from service.features.audit.duplicates import find_duplicates
from tests.service.features.audit.test_duplicates import CHANGES, add


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Phantoms of 128 x 128 pixels with a changed copy of each, described by their darkness."""
    folder = tmp_path_factory.mktemp("comparison")
    pictures = [draw_phantom(index, size=128).pixels for index in range(8)]
    copies = [change(picture) for change, picture in zip(CHANGES.values(), pictures, strict=True)]
    with Collection.create(folder / "collection", profiles.get("tamura")) as created:
        add(created, folder / "files", [*pictures, *copies])
        yield created


@pytest.fixture
def in_processes(monkeypatch):
    monkeypatch.setattr(duplicate_pictures, "LEAST_FOR_PROCESSES", 0)
    monkeypatch.setattr(duplicate_pictures, "cores", lambda: 2)
    monkeypatch.setattr(duplicate_proof, "TOGETHER", 5)
    monkeypatch.setattr(picture_signatures, "TOGETHER", 5)


@pytest.mark.slow
def test_processes_find_what_threads_find(collection, request):
    by_threads = find_duplicates(collection)
    request.getfixturevalue("in_processes")
    done = []
    by_processes = find_duplicates(collection, (), lambda *progress: done.append(progress))
    assert by_processes == by_threads
    assert len(by_processes.groups) == 8
    compared = [step for stage, *step in done if stage == "comparing pictures"]
    assert compared[-1] == [by_processes.pairs, by_processes.pairs]
    assert len(compared) == -(-by_processes.pairs // 5)


@pytest.mark.slow
def test_a_process_that_dies_ends_the_search_with_one_line(collection, in_processes, monkeypatch):
    monkeypatch.setattr(duplicate_proof, "_compare", kill_itself)
    with pytest.raises(CbirError, match="perhaps out of memory"):
        find_duplicates(collection)


def kill_itself(reader, block):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_an_interrupted_search_leaves_no_process(collection, in_processes):
    def stop(stage, done, total):
        if stage == "comparing pictures":
            raise KeyboardInterrupt

    before = set(multiprocessing.active_children())  # decoders of services that earlier tests made
    with pytest.raises(KeyboardInterrupt):
        find_duplicates(collection, (), stop)
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.slow
def test_processes_that_cannot_open_the_collection_say_why(collection, in_processes, tmp_path):
    copy = shutil.copytree(collection.folder, tmp_path / "copy")
    with Collection(copy) as opened:
        reader = PictureReader(opened, 10**6)
    shutil.rmtree(copy)
    with duplicate_pictures.picture_workers(reader, 1) as workers, pytest.raises(NotFound, match="copy"):
        list(workers.map(picture_signatures._read, [np.array([1])]))


def test_a_block_has_the_squares_that_its_pairs_need():
    squares = Squares(
        np.arange(5) + 10, np.full(5, 64), np.arange(5 * SIDE * SIDE, dtype=np.uint8).reshape(5, SIDE, SIDE)
    )
    pairs = np.array([[1, 4], [1, 2]])
    each = np.zeros(2, bool)
    placed = PlacedPairs(pairs, np.zeros(2, np.int64), np.zeros((2, 2, 3), np.float32), each, each)
    block = duplicate_proof._cut_out(squares, placed, slice(0, 2))
    assert block.squares.numbers.tolist() == [11, 12, 14]
    assert np.array_equal(block.rows[block.pairs.pairs], pairs)
    assert np.array_equal(block.squares.pixels[block.pairs.pairs], squares.pixels[pairs])
