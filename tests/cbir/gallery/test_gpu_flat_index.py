"""Copy of vectors on a GPU, or on the processor under its name: as the index of the CPU finds them."""

import numpy as np
import pytest

from cbir.errors import QueryCancelled
from cbir.gallery import flat_index
from cbir.gallery.flat_index import PARTS, GpuFlatIndex
from cbir.system import device_failure
from cbir.system.device import faiss_gpu_problem
from cbir.system.threads import time_limit
from tests.cbir.gallery.test_knn import clustered
from tests.cbir.system.device_errors import ERRORS
from tests.cbir.system.imagined_gpu import ImaginedIndex

VECTORS = clustered(30_000)


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if faiss_gpu_problem():
        monkeypatch.setattr(flat_index, "create_gpu_index", ImaginedIndex)


def exact(query: np.ndarray, rows: np.ndarray, count: int) -> set[int]:
    distances = np.linalg.norm(VECTORS[rows].astype(float) - query, axis=1)
    return set(rows[np.argsort(distances, kind="stable")[:count]].tolist())


@pytest.mark.parametrize("count", [1, 20, 5000])
@pytest.mark.parametrize("name", ["all", "one left out", "half"])
def test_the_nearest_that_are_allowed_are_found(count: int, name: str) -> None:
    index = GpuFlatIndex()
    rows = {"all": np.arange(30_000), "one left out": np.delete(np.arange(30_000), 7)}.get(
        name, np.arange(0, 30_000, 2)
    )
    for query in clustered(3, seed=3):
        found = index.nearest(VECTORS, query, count, None if name == "all" else rows)
        assert found is not None
        assert (np.diff(found) > 0).all()
        assert np.isin(found, rows).all()
        missing = exact(query, rows, count) - set(found.tolist())
        assert len(missing) <= count // 2000  # half precision exchanges the last ones


def test_more_than_a_gpu_finds_are_left_to_the_processor() -> None:
    assert GpuFlatIndex().nearest(VECTORS, VECTORS[0], 25_000) is None


def test_images_in_one_part_alone_are_found_or_left_to_the_processor() -> None:
    """The nearest of all may be dealt to a single part: it is seen that some may be missing."""
    vectors = clustered(20_000, seed=1)
    vectors[::PARTS] = vectors[0]  # 2,500 copies of one image, all in the first part
    index = GpuFlatIndex()
    found = index.nearest(vectors, vectors[0], 1000)
    assert found is not None
    assert len(found) >= 1000
    assert set(found.tolist()) <= set(range(0, 20_000, PARTS))
    assert index.nearest(vectors, vectors[0], 2400) is None


def test_other_vectors_are_copied_again() -> None:
    index, other = GpuFlatIndex(), clustered(3000, seed=9)
    index.nearest(VECTORS, VECTORS[3], 5)
    parts = index._parts
    index.nearest(VECTORS, VECTORS[4], 5)
    assert index._parts is parts
    found = index.nearest(other, other[2999], 1)
    assert found is not None
    assert 2999 in found


def test_parts_share_the_memory_that_faiss_works_in() -> None:
    index = GpuFlatIndex()
    index.nearest(VECTORS, VECTORS[0], 5)
    assert len(index._parts) == PARTS
    if faiss_gpu_problem():
        assert len({id(part.memory) for part in index._parts}) == 1
    else:
        assert len({id(part.referenced_objects[0]) for part in index._parts}) == 1


def test_copies_that_do_not_fit_are_sent_in_smaller_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(ImaginedIndex):
        def add(self, vectors: np.ndarray) -> None:
            super().add(vectors)
            if vectors.nbytes > 20_000:  # it has stored them, and then has no room for the rest of its work
                raise ERRORS["faiss"]()

    monkeypatch.setattr(flat_index, "create_gpu_index", Small)
    monkeypatch.setattr(flat_index, "GPU_ADDED", (100_000, 10_000))
    index, query = GpuFlatIndex(), clustered(1, seed=2)[0]
    found = index.nearest(VECTORS, query, 20)
    assert found is not None
    assert exact(query, np.arange(30_000), 20) <= set(found.tolist())
    assert sum(part.ntotal for part in index._parts) == 30_000


def test_what_is_on_a_broken_gpu_is_not_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """FAISS ends the process when it frees memory of a device that has failed."""
    monkeypatch.setattr(flat_index, "_abandoned", [])
    index = GpuFlatIndex()
    index.nearest(VECTORS, VECTORS[0], 5)
    parts = index._parts
    index.abandon()
    assert flat_index._abandoned == [parts]
    assert index._parts == []


def test_vectors_that_nothing_uses_any_more_leave_the_gpu() -> None:
    """As those of a snapshot that was replaced when a patient was erased."""
    index, vectors = GpuFlatIndex(), clustered(3000, seed=9)
    index.nearest(vectors, vectors[3], 5)
    assert index._parts
    del vectors
    assert not index._parts


def test_those_of_a_gpu_that_has_failed_elsewhere_are_not_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_index, "_abandoned", [])
    monkeypatch.setattr(device_failure, "_failures", device_failure._FailureLog())
    index, vectors = GpuFlatIndex(), clustered(3000, seed=9)
    index.nearest(vectors, vectors[3], 5)
    parts = index._parts
    device_failure.give_up_gpu("an encoder failed")
    del vectors
    assert flat_index._abandoned == [parts]


@pytest.mark.parametrize("reason", ["cancelled", "memory", "broken"])
def test_only_what_is_on_a_broken_gpu_stays_there_when_a_copy_fails(
    monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    class Full(ImaginedIndex):
        def add(self, vectors: np.ndarray) -> None:
            raise ERRORS["faiss" if reason == "memory" else "sticky"]()

    monkeypatch.setattr(flat_index, "_abandoned", [])
    if reason == "cancelled":  # while another snapshot is sent again: the first copy of one is not cancelled
        with time_limit(1e-9), pytest.raises(QueryCancelled):
            GpuFlatIndex()._copy(VECTORS)
    else:
        monkeypatch.setattr(flat_index, "create_gpu_index", Full)
        with pytest.raises(type(ERRORS["faiss" if reason == "memory" else "sticky"]())):
            GpuFlatIndex().nearest(VECTORS, VECTORS[0], 5)
    assert bool(flat_index._abandoned) == (reason == "broken")
