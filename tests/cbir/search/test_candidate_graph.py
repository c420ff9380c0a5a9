"""Graph of candidates: that of a collection of them alone, or of those nearest to the queries."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cbir.gallery import candidate_graph
from cbir.gallery.candidate_graph import CandidateGraph
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import Graph, build_graph
from cbir.gallery.whitening import Space, fit_space, plain_space

VECTORS = np.random.default_rng(0).standard_normal((60, 8), np.float32)
GALLERY = Gallery((VECTORS,), np.arange(60))
NONE = np.empty(0, np.int64)


def graph_of(space: Space, queries: np.ndarray, rows: np.ndarray, always: np.ndarray = NONE) -> Graph:
    scale = SimpleNamespace(space=space, nearest_distances=None)
    graph, lengths = CandidateGraph(scale, queries, rows, always).covering(GALLERY)
    assert len(graph) == len(lengths) == len(GALLERY)
    return graph


def linked(*given: Any) -> list[int]:
    return np.flatnonzero(np.diff(graph_of(*given).weights.indptr)).tolist()


def test_the_graph_is_that_of_its_rows_alone() -> None:
    rows = np.arange(0, 60, 2)
    space = fit_space(VECTORS)
    graph, alone = (
        graph_of(space, VECTORS[:1], rows),
        build_graph(find_neighbours(VECTORS[rows], space)),
    )
    np.testing.assert_allclose(
        graph.weights.toarray()[np.ix_(rows, rows)], alone.weights.toarray(), rtol=1e-5
    )
    assert graph.weights.nnz == alone.weights.nnz


@pytest.mark.parametrize("most", [10, 20])
def test_rows_nearest_to_the_queries_are_joined(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(candidate_graph, "LINKED", most)
    rows, space = np.arange(5, 55), plain_space(8)
    units = space.transform(VECTORS)[0]
    order = rows[np.argsort(-units[rows] @ units[:2].T, axis=0)]
    assert linked(space, VECTORS[:2], rows) == np.unique(order[: most // 2]).tolist()
    expected = np.union1d(order[:most, 0], order[-1:, 0])
    assert linked(space, VECTORS[:1], rows, order[-1:, 0]) == expected.tolist()


def test_in_a_whitened_space_all_rows_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_graph, "LINKED", 10)
    assert linked(fit_space(VECTORS), VECTORS[:1], np.arange(5, 55)) == list(range(5, 55))
