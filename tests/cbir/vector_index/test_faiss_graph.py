"""The graph of FAISS finds neighbours in vectors that form many narrow groups."""

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.vector_index.faiss_graph import FaissGraph
from cbir.vector_index.graph_entries import GraphEntries

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
    vectors = np.random.default_rng(1).standard_normal((10_000, 8), np.float32)
    entries = GraphEntries(vectors)
    assert len(set(entries.rows.tolist())) == len(entries.rows) == 6400
    squared, rows = entries.nearest(vectors[:3])
    distances = ((vectors[entries.rows][None] - vectors[:3, None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared, np.sort(distances, axis=1)[:, : squared.shape[1]], atol=1e-4)
    assert (rows[:, 0] == entries.rows[distances.argmin(axis=1)]).all()


def test_entries_are_drawn_again_without_deleted_images() -> None:
    vectors, _, graph = sparse_graph()
    graph.nearest(vectors[:1], NEAREST, None)
    before = graph._entries
    assert before is not None
    others = np.setdiff1d(np.arange(len(vectors)), before.rows)[[0, -1]]
    assert not before.has_any(others)
    graph.delete(others + 1)
    assert graph._entries is before
    sampled = before.rows[[5, -1]]
    assert before.has_any(sampled)
    graph.delete(np.append(others[:1], sampled[:1]) + 1)
    (answer,) = graph.nearest(vectors[sampled[:1]], NEAREST, None)
    assert sampled[0] + 1 not in answer.numbers
    assert graph._entries is not before  # whose vectors would keep the values of the deleted image
    assert not (graph._entries._vectors == vectors[sampled[0]]).all(axis=1).any()


def test_entries_of_a_single_row() -> None:
    rows = GraphEntries(np.ones((1, 4), np.float32)).nearest(np.ones((2, 4), np.float32))[1]
    assert rows.tolist() == [[0], [0]]
