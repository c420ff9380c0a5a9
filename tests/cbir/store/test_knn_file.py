"""The file of neighbours beside a snapshot."""

from pathlib import Path

import numpy as np
import pytest

from cbir.errors import CollectionDamaged
from cbir.gallery import knn
from cbir.gallery import vector_blocks as whitening
from cbir.store.snapshot.snapshot import read_knn, write_knn
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.gallery.test_knn import PARTS, clustered


def test_file_is_read_as_it_was_written_and_others_are_refused(tmp_path: Path) -> None:
    vectors = clustered(50)
    found = knn.find_neighbours(vectors, whitening.fit_space(vectors, PARTS))
    path = tmp_path / "1.neighbours"
    write_knn(path, found)
    back = read_knn(path, 50, 10)
    for name in ("rows", "squared", "lengths"):
        np.testing.assert_array_equal(getattr(back, name), getattr(found, name))
    with pytest.raises(CollectionDamaged, match="do not fit"):
        read_knn(path, 51, 10)
    whole = path.read_bytes()
    for content in (b"", b"nothing", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(CollectionDamaged, match="cannot be read"):
            read_knn(path, 50, 10)


def test_vectors_compared_as_they_are_need_no_projection_in_the_file(tmp_path: Path) -> None:
    vectors = clustered(50)
    plain = knn.find_neighbours(vectors, whitening.plain_space(10))
    write_knn(tmp_path / "1.neighbours", plain)
    assert read_knn(tmp_path / "1.neighbours", 50, 10).space.projection is None
    identity = whitening.Space(np.zeros(10, np.float32), np.eye(10, dtype=np.float32))
    write_knn(tmp_path / "2.neighbours", knn.find_neighbours(vectors, identity))  # of an earlier version
    back = read_knn(tmp_path / "2.neighbours", 50, 10)
    np.testing.assert_array_equal(back.space.transform(vectors)[0], plain.space.transform(vectors)[0])


@pytest.mark.slow
def test_every_byte_of_the_file_may_be_damaged(tmp_path: Path) -> None:
    """Damage is named or does no harm; in the directory of the archive it could look like a password."""
    vectors = clustered(12)
    found = knn.find_neighbours(vectors, whitening.fit_space(vectors, PARTS))
    path = tmp_path / "1.neighbours"
    write_knn(path, found)
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 + place % 255
        path.write_bytes(damaged)
        try:
            back = read_knn(path, 12, 10)
        except CollectionDamaged:
            continue
        np.testing.assert_array_equal(back.rows, found.rows)
        np.testing.assert_array_equal(back.squared, found.squared)


def test_collection_keeps_its_neighbours_and_does_without(collection, entries) -> None:
    with collection.writer() as writer:
        writer.add(entries(0, 60))
        writer.finish()
    assert collection.view().gallery.neighbourhood is not None
    (file,) = (collection.folder / "snapshots").glob("*.neighbours")
    file.unlink()
    assert "neighbours" in verify_collection(collection)[0]
    reader = type(collection)(collection.folder)
    assert reader.view().gallery.neighbourhood is None
    assert "neighbours" in str(reader.snapshot_problem)
    with reader.writer() as writer:
        writer.finish()
    assert reader.view().gallery.neighbourhood is not None
    assert reader.snapshot_problem is None
    assert verify_collection(reader) == []
