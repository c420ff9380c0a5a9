"""The graph of FAISS finds neighbours in vectors that form many narrow groups."""

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.store.index.faiss_graph import FaissGraph, GraphEntries

GROUPS, MEMBERS, DIMENSIONS, NEAREST = 150, 100, 16, 20


def sparse_graph() -> tuple[NDArray[np.float32], NDArray[np.float32], FaissGraph]:
    """Return vectors in groups, one query a group, and a graph with so few links that groups are hardly joined."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((GROUPS, DIMENSIONS), np.float32)
    shape = (GROUPS * MEMBERS, DIMENSIONS)
    vectors = np.repeat(centres, MEMBERS, axis=0) + 0.01 * random.standard_normal(shape, np.float32)
    random.shuffle(vectors)
    index = faiss.IndexHNSWFlat(DIMENSIONS, 4)
    index.hnsw.efConstruction = 16
    graph = FaissGraph(DIMENSIONS, index)
    graph.put(np.arange(1, len(vectors) + 1), vectors)
    return vectors, centres, graph


def recall(rows: NDArray[np.int64], exact: NDArray[np.int64]) -> float:
    """Return the share of the exact nearest rows that were found."""
    return float(np.mean([np.isin(best, found).mean() for found, best in zip(rows, exact, strict=True)]))


def test_a_search_does_not_end_in_a_wrong_group() -> None:
    vectors, queries, graph = sparse_graph()
    exact = faiss.knn(queries, vectors, NEAREST)[1]
    options = faiss.SearchParametersHNSW(efSearch=100)
    assert recall(graph.index.search(queries, NEAREST, params=options)[1], exact) < 0.96
    answers = np.array([answer.numbers - 1 for answer in graph.nearest(queries, NEAREST, None)])
    assert recall(answers, exact) > 0.99
    even = np.arange(1, len(vectors) + 1, 2)
    answers = np.array([answer.numbers for answer in graph.nearest(queries, NEAREST, even)])
    assert recall(answers, even[faiss.knn(queries, vectors[::2], NEAREST)[1]]) > 0.99


def test_entries_are_the_nearest_of_a_sample() -> None:
    vectors = np.random.default_rng(1).standard_normal((1000, 8), np.float32)
    entries = GraphEntries(vectors)  # has all rows of so few
    entries._lists.nprobe = entries._lists.nlist
    squared, rows = entries.nearest(vectors[:3])
    exact_squared, exact = faiss.knn(vectors[:3], vectors, squared.shape[1])
    np.testing.assert_allclose(squared, exact_squared, atol=1e-4)
    assert (rows == exact).all()
    entries = GraphEntries(np.tile(vectors, (10, 1)))
    assert len(entries) == 6400
    found = entries.nearest(vectors[:20])[1]
    assert found.shape == (20, 64)
    assert (np.diff(np.sort(found)) > 0).all()
    assert (found[:, 0] % 1000 == np.arange(20)).mean() > 0.9


def test_deleted_images_are_no_entries() -> None:
    vectors, _, graph = sparse_graph()
    graph.nearest(vectors[:1], NEAREST, None)
    entries = graph._entries
    assert entries is not None
    count, before = len(entries), set(entries.nearest(vectors[:1])[1][0].tolist())
    deleted = np.array(sorted(before))
    graph.delete(deleted + 1)
    assert (graph._entries, len(entries)) == (entries, count - len(deleted))
    assert not before & set(entries.nearest(vectors[:1])[1][0].tolist())
    (answer,) = graph.nearest(vectors[:1], NEAREST, None)
    assert len(answer.numbers) == NEAREST
    assert not np.isin(deleted + 1, answer.numbers).any()
    graph.delete(np.arange(1000, len(vectors) + 1))
    (answer,) = graph.nearest(vectors[:1], NEAREST, None)
    assert len(answer.numbers) == NEAREST
    assert answer.numbers.max() < 1000


def test_entries_of_a_single_row() -> None:
    rows = GraphEntries(np.ones((1, 4), np.float32)).nearest(np.ones((2, 4), np.float32))[1]
    assert rows[:, 0].tolist() == [0, 0]
    assert (rows[:, 1:] == -1).all()
