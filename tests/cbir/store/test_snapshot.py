"""The snapshot on the disk."""

import weakref

import faiss
import numpy as np
import pytest

from cbir.errors import CollectionDamaged
from cbir.store.snapshot import snapshot


def write(path, vectors, ids):
    flat, storage = snapshot.allocate_index(*vectors.shape)
    storage[:] = vectors
    size, checksum = snapshot.write_snapshot(path, flat, ids)
    return snapshot.SnapshotInfo(
        file=path.name, generation=1, images=len(ids), last_number=9999, size=size, checksum=checksum
    )


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_round_trip(tmp_path, count):
    vectors = np.random.default_rng(0).normal(size=(count, 7)).astype(np.float32)
    ids = np.arange(count) * 3 + 1
    path = tmp_path / "1.index"
    info = write(path, vectors, ids)
    opened = snapshot.open_snapshot(path, info, 7)
    np.testing.assert_array_equal(opened.vectors, vectors)
    np.testing.assert_array_equal(opened.ids, ids)
    assert info.checksum == snapshot.file_checksum(path)
    assert list(tmp_path.iterdir()) == [path]


def test_faiss_itself_reads_what_follows_the_preamble(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    path = tmp_path / "1.index"
    write(path, vectors, np.arange(50) + 100)
    plain = tmp_path / "plain.faiss"
    plain.write_bytes(path.read_bytes()[len(snapshot.PREAMBLE) :])
    distances, numbers = faiss.read_index(str(plain)).search(vectors[:3], 1)
    assert numbers.ravel().tolist() == [100, 101, 102]
    np.testing.assert_allclose(distances, 0, atol=1e-5)


def test_what_is_mapped_cannot_be_written_to(tmp_path):
    path = tmp_path / "1.index"
    info = write(path, np.ones((3, 7), np.float32), np.arange(3))
    with pytest.raises(ValueError, match="read-only"):
        snapshot.open_snapshot(path, info, 7).vectors[0] = 2


def test_vectors_keep_their_file_mapped(tmp_path):
    path = tmp_path / "1.index"
    info = write(path, np.ones((3, 7), np.float32), np.arange(3))
    opened = snapshot.open_snapshot(path, info, 7)
    mapped = weakref.ref(opened.flat_index.flat.referenced_objects[1])
    vectors = opened.vectors[1:]
    del opened
    assert mapped() is not None  # else reading them would end the process
    del vectors
    assert mapped() is None


@pytest.mark.parametrize("dimensions", [6, 8])
def test_another_descriptors_snapshot_is_refused(tmp_path, dimensions):
    path = tmp_path / "1.index"
    info = write(path, np.ones((3, 7), np.float32), np.arange(3))
    with pytest.raises(CollectionDamaged, match="does not fit"):
        snapshot.open_snapshot(path, info, dimensions)
