"""File of a stored graph: what is read is what was written, and damage is noticed."""

from pathlib import Path

import numpy as np
import pytest

from cbir.errors import CollectionDamaged
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import build_graph
from cbir.gallery.numbered_graph import NumberedGraph, number_graph
from cbir.gallery.vector_blocks import fit_space, plain_space
from cbir.store.index.stored_neighbours import EditionGraph, read_neighbours, write_neighbours

ARRAYS = ("numbers", "starts", "ends", "weights", "scale", "reach", "degrees")


def graph_of(count: int, plain: bool = False) -> NumberedGraph:
    vectors = np.random.default_rng(1).standard_normal((count, 5), np.float32)
    space = plain_space(5) if plain else fit_space(vectors)
    return number_graph(np.arange(count) * 2 + 1, build_graph(find_neighbours(vectors, space)), space)


@pytest.mark.parametrize("count", [0, 1, 2, 30])
@pytest.mark.parametrize("plain", [False, True])
def test_what_is_read_is_what_was_written(tmp_path: Path, count: int, plain: bool) -> None:
    graph, path = graph_of(count, plain), tmp_path / "hnsw.neighbours"
    write_neighbours(path, EditionGraph("cbir_1", 7, graph))
    stored = read_neighbours(path)
    assert stored is not None
    assert (stored.edition, stored.generation) == ("cbir_1", 7)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(stored.graph, name), getattr(graph, name))
    np.testing.assert_array_equal(stored.graph.space.centre, graph.space.centre)
    if plain:
        assert stored.graph.space.projection is None
    else:
        np.testing.assert_array_equal(stored.graph.space.projection, graph.space.projection)
    assert stored.graph.least == graph.least


def test_no_file(tmp_path: Path) -> None:
    assert read_neighbours(tmp_path / "none") is None


@pytest.mark.parametrize("position", [0, 5000, -200, -1])
def test_a_changed_byte_is_noticed(tmp_path: Path, position: int) -> None:
    path = tmp_path / "hnsw.neighbours"
    write_neighbours(path, EditionGraph("cbir_1", 7, graph_of(30)))
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(CollectionDamaged, match=r"hnsw\.neighbours has changed since it was written"):
        read_neighbours(path)


@pytest.mark.parametrize("size", [0, 10, 4096, -1])
def test_a_cut_file_is_noticed(tmp_path: Path, size: int) -> None:
    path = tmp_path / "hnsw.neighbours"
    write_neighbours(path, EditionGraph("cbir_1", 7, graph_of(30)))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CollectionDamaged):
        read_neighbours(path)
