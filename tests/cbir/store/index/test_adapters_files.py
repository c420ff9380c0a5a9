"""Files of a local index: damage, changes of other processes, what deleted images leave, and searches meanwhile."""

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cbir.errors import IndexUnavailable
from cbir.store.index.faiss_index import HNSW, FaissIndex, inverted_lists
from cbir.store.index.port import IndexedImage, IndexPosition, IndexScope, Numbers
from tests.cbir.store.index.subjects import DIMENSIONS, make_vectors

EDITION = "cbir_0_1"
COUNT = 300
POSITION = IndexPosition(1, COUNT, 1)


KINDS = {kind.suffix: kind for kind in (HNSW, inverted_lists(probes=8))}


def opened(folder: Path, dimensions: int = DIMENSIONS) -> FaissIndex:
    """Open the index of a folder, which tells its kind by its name."""
    return FaissIndex(folder, EDITION, dimensions, lambda _: np.empty(0, np.int64), KINDS[folder.name])


def file_of(folder: Path) -> Path:
    return folder / f"{EDITION}.{folder.name}"


def put(index: FaissIndex, first: int, vectors: NDArray[np.float32]) -> None:
    index.put([IndexedImage(first + place, "") for place in range(len(vectors))], vectors)


@pytest.fixture(params=KINDS)
def empty_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder for an index of each kind."""
    folder = tmp_path / request.param
    folder.mkdir()
    return folder


@pytest.fixture
def folder(empty_folder: Path) -> Path:
    """An index of 300 images, and ten that were changed since its file was written."""
    index = opened(empty_folder)
    put(index, 1, make_vectors(COUNT))
    index.set_position(POSITION)
    put(index, 1000, make_vectors(10, seed=1))
    index.set_position(IndexPosition(2, 1009, 1))
    return empty_folder


def numbers_of(index: FaissIndex) -> Numbers:
    return np.sort(index.nearest(make_vectors(1), 2000, IndexScope())[0].numbers)


def test_small_changes_leave_the_file_as_it_is(folder: Path) -> None:
    base = (file_of(folder)).read_bytes()
    index = opened(folder)
    put(index, 1010, make_vectors(1, seed=2))
    index.set_position(IndexPosition(3, 1010, 1))
    assert (file_of(folder)).read_bytes() == base
    assert len(opened(folder)) == COUNT + 11


def test_many_changes_are_taken_into_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALL", "REWRITTEN"):
        monkeypatch.setattr(f"cbir.store.index.faiss_index.{name}", 0)
    before, index = numbers_of(opened(folder)), opened(folder)
    other = opened(folder)
    index.set_position(IndexPosition(9, 1009, 1))
    assert [path.name for path in folder.glob("*.changes")] == []
    for copy in (index, other, opened(folder)):
        assert copy.position() == IndexPosition(9, 1009, 1)
        np.testing.assert_array_equal(numbers_of(copy), before)


def test_first_fill_is_seen_once_its_position_is_set(empty_folder: Path) -> None:
    index, other = opened(empty_folder), opened(empty_folder)
    put(index, 1, make_vectors(COUNT))
    assert list(empty_folder.iterdir()) == []
    assert other.position() is None
    index.set_position(POSITION)
    assert other.position() == POSITION
    assert len(other) == COUNT


def test_other_process_sees_changes(folder: Path) -> None:
    index, other = opened(folder), opened(folder)
    put(index, 5, np.full((1, DIMENSIONS), 30, np.float32))
    index.delete(np.array([6]))
    assert other.nearest(np.full((1, DIMENSIONS), 30, np.float32), 1, IndexScope())[0].numbers.tolist() == [5]
    assert other.vectors(np.array([6]))[0].tolist() == []
    assert other.position() == IndexPosition(2, 1009, 1)


@pytest.mark.parametrize(
    "place", [0, 30, 1000, 4096 + 80, 4096 + 8 * COUNT + 5, 4096 + 16 * COUNT + 99, -1000, -1]
)
def test_damaged_file_counts_as_none(folder: Path, place: int) -> None:
    path = file_of(folder)
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(content)
    index = opened(folder)
    assert index.position() is None
    assert len(index) == 0
    put(index, 1, make_vectors(20))
    index.set_position(POSITION)
    again = opened(folder)
    assert again.position() == POSITION
    assert len(again) == 20


@pytest.mark.parametrize("size", [0, 5, 100, 5000])
def test_cut_file_counts_as_none(folder: Path, size: int) -> None:
    path = file_of(folder)
    path.write_bytes(path.read_bytes()[:size])
    assert opened(folder).position() is None


def test_vectors_of_another_length_count_as_none(folder: Path) -> None:
    index = opened(folder, DIMENSIONS + 1)
    assert index.position() is None
    assert len(index) == 0


def test_cut_changes_are_left_out_and_written_over(folder: Path) -> None:
    (path,) = folder.glob("*.changes")
    content = path.read_bytes()
    for size in (len(content) - 1, len(content) - 40, len(content) - 60, 3):
        path.write_bytes(content[:size])
        index = opened(folder)
        assert index.position() == POSITION
        assert COUNT <= len(index) <= COUNT + 10
    put(index, 1, make_vectors(1, seed=3))
    index.set_position(IndexPosition(4, 1, 1))
    assert opened(folder).position() == IndexPosition(4, 1, 1)


def test_values_of_deleted_images_leave_the_files_in_place(folder: Path) -> None:
    path = file_of(folder)
    in_file, in_changes = make_vectors(COUNT)[7], make_vectors(10, seed=1)[3]
    before, written = path.stat(), path.read_bytes()
    index, other = opened(folder), opened(folder)
    assert in_file.tobytes() in written
    index.delete(np.array([8, 1003, 5000]))
    index.set_position(IndexPosition(3, 1009, 1))
    for file in folder.iterdir():
        assert in_file.tobytes() not in file.read_bytes()
        assert in_changes.tobytes() not in file.read_bytes()
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)  # others need not read it
    changed = np.flatnonzero(np.frombuffer(written, np.uint8) != np.frombuffer(path.read_bytes(), np.uint8))
    assert len(changed) <= 8 + 4 * DIMENSIONS
    for copy in (other, opened(folder)):
        assert copy.position() == IndexPosition(3, 1009, 1)
        assert len(copy) == COUNT + 8
        rest = np.setdiff1d(np.arange(1000, 1010), [1003])
        np.testing.assert_array_equal(copy.vectors(np.arange(1000, 1010))[0], rest)
        np.testing.assert_array_equal(copy.vectors(rest)[1], np.delete(make_vectors(10, seed=1), 3, axis=0))


@pytest.mark.parametrize("call", ["fsync", "utime"])
def test_values_of_deleted_images_after_a_crash(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    index = opened(folder)
    index.delete(np.array([8]))
    index.set_position(IndexPosition(3, 1009, 1))
    index.delete(np.array([9, 1003]))
    with monkeypatch.context() as patched:
        patched.setattr(f"cbir.store.index.faiss_file.os.{call}", fail)
        with pytest.raises(KeyboardInterrupt):
            index.set_position(IndexPosition(4, 1009, 1))
    again = opened(folder)
    assert len(again) == COUNT + 7
    again.set_position(IndexPosition(5, 1009, 1))
    for file in folder.iterdir():
        for vector in (make_vectors(COUNT)[8], make_vectors(10, seed=1)[3]):
            assert vector.tobytes() not in file.read_bytes()
    assert len(opened(folder)) == COUNT + 7


def test_image_that_is_put_again_after_its_deletion(folder: Path) -> None:
    index = opened(folder)
    index.delete(np.array([8, 1003]))
    put(index, 8, make_vectors(1, seed=8))
    put(index, 1003, make_vectors(1, seed=9))
    index.set_position(IndexPosition(3, 1009, 1))
    for copy in (index, opened(folder)):
        for number, seed in ((8, 8), (1003, 9)):
            np.testing.assert_array_equal(copy.vectors(np.array([number]))[1], make_vectors(1, seed=seed))


def test_same_vectors_are_not_put_again(folder: Path) -> None:
    index, before = opened(folder), {path: path.read_bytes() for path in folder.iterdir()}
    put(index, 1, make_vectors(COUNT))
    put(index, 1000, make_vectors(10, seed=1))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALL", "REWRITTEN"):
        monkeypatch.setattr(f"cbir.store.index.faiss_index.{name}", 0)
    index = opened(folder)
    with monkeypatch.context() as patched:
        patched.setattr("cbir.system.files.os.fsync", no_space)
        with pytest.raises(
            IndexUnavailable, match=r"cbir_0_1\.(hnsw|ivf) cannot be written: No space left on device"
        ):
            index.set_position(IndexPosition(3, 1009, 1))
    assert opened(folder).position() == IndexPosition(2, 1009, 1)
    assert not list(folder.glob("*.partial"))
    index.set_position(IndexPosition(3, 1009, 1))
    assert opened(folder).position() == IndexPosition(3, 1009, 1)
    assert len(opened(folder)) == COUNT + 10


def fail(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_finds_after_most_were_deleted(empty_folder: Path) -> None:
    index, vectors = opened(empty_folder), make_vectors(4000)
    put(index, 1, vectors)
    index.delete(np.arange(1, 4001)[np.arange(4000) % 10 != 0])
    (found,) = index.nearest(vectors[:1], 400, IndexScope())
    assert len(found.numbers) == 400
    assert (found.numbers % 10 == 1).all()


def test_searches_while_it_changes(empty_folder: Path) -> None:
    index, vectors = opened(empty_folder), make_vectors(2000)
    put(index, 1, vectors[:200])
    done, errors = threading.Event(), []

    def search() -> None:
        try:
            while not done.is_set():
                (found,) = index.nearest(vectors[:1], 50, IndexScope())
                assert len(found.numbers) == 50
                assert found.numbers[0] == 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(200, 2000, 100):
        put(index, start + 1, vectors[start : start + 100])
        index.delete(np.array([start, start + 1]))
    index.set_position(POSITION)
    done.set()
    for thread in threads:
        thread.join()
    assert not errors
