"""A stored graph read in part: the same edges, weights and degrees as the graph of all images."""

import numpy as np
import pytest

from cbir.gallery.gallery import Gallery
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import Graph, Neighbourhood, build_graph
from cbir.gallery.numbered_graph import NumberedGraph, StoredNeighbourhood, number_graph
from cbir.gallery.vector_blocks import fit_space

VECTORS = np.random.default_rng(0).standard_normal((80, 6), np.float32)
NUMBERS = np.arange(80) * 3 + 2
SPACE = fit_space(VECTORS)
GRAPH = build_graph(find_neighbours(VECTORS, SPACE))


def stored(rows: np.ndarray = np.arange(80)) -> NumberedGraph:
    """Return the graph of some of the images alone."""
    return number_graph(NUMBERS[rows], build_graph(find_neighbours(VECTORS[rows], SPACE)), SPACE)


def assert_same_graph(graph: Graph, expected: Graph) -> None:
    np.testing.assert_allclose(graph.weights.toarray(), expected.weights.toarray(), rtol=1e-5, atol=1e-7)
    for name in ("scale", "reach", "degrees"):
        np.testing.assert_allclose(getattr(graph, name), getattr(expected, name), rtol=1e-5)
    assert graph.least == expected.least


def test_all_rows_are_the_whole_graph() -> None:
    assert_same_graph(stored().part(np.arange(80)), GRAPH)


def test_a_part_has_the_edges_between_its_images_and_the_degrees_of_the_whole() -> None:
    rows = np.array([3, 4, 7, 20, 21, 60, 79])
    part = stored().part(rows)
    np.testing.assert_array_equal(part.weights.toarray(), GRAPH.weights.toarray()[np.ix_(rows, rows)])
    np.testing.assert_allclose(part.degrees, GRAPH.degrees[rows], rtol=1e-5)
    np.testing.assert_array_equal(part.reach, GRAPH.reach[rows])


def test_rows_of_numbers_that_it_has() -> None:
    rows, known = stored().rows(np.array([0, 2, 3, 11, 239, 500]))
    assert rows.tolist() == [0, 3, 79]
    assert known.tolist() == [False, True, False, True, True, False]
    empty, unknown = stored(np.empty(0, np.int64)).rows(np.array([2]))
    assert (empty.tolist(), unknown.tolist()) == ([], [False])


def test_relevance_that_flows_in_is_that_of_the_whole_graph() -> None:
    squared = np.linspace(0.1, 3.0, 80, dtype=np.float32)
    edges = GRAPH.edges(squared)
    expected = edges / np.sqrt(GRAPH.degrees + edges)
    np.testing.assert_allclose(stored().joined(np.arange(80), squared), expected / expected.sum(), rtol=1e-4)
    assert not stored().joined(np.arange(80), np.full(80, np.inf, np.float32)).any()


@pytest.mark.parametrize("most", [1, 5, 30])
def test_what_most_relevance_reaches_first(most: int) -> None:
    start = np.zeros(80, np.float32)
    start[[4, 50]] = 0.5, 0.4
    weights, flow, expected = GRAPH.weights.toarray(), start, np.array([4, 50])
    while len(expected) <= most:
        flow = start + weights @ flow
        expected = np.flatnonzero(flow)
    expected = np.sort(expected[np.argsort(-flow[expected], kind="stable")[:most]])
    assert stored().reached(np.arange(80), start, most).tolist() == expected.tolist()


def test_with_enough_rows_everything_joined_is_reached() -> None:
    start = np.zeros(80, np.float32)
    start[0] = 1.0
    assert len(stored().reached(np.arange(80), start, 80)) == 80
    assert not len(stored().reached(np.arange(80), np.zeros(80, np.float32), 80))


def covering(numbered: NumberedGraph, rows: np.ndarray) -> Graph:
    gallery = Gallery((VECTORS,), NUMBERS)
    neighbourhood = StoredNeighbourhood(numbered, NUMBERS, rows)
    graph, lengths = neighbourhood.covering(gallery)
    np.testing.assert_allclose(lengths, SPACE.transform(VECTORS)[1], rtol=1e-6)
    return graph


def test_images_added_since_are_joined_as_in_a_collection() -> None:
    shared = Neighbourhood(find_neighbours(VECTORS[:60], SPACE))
    expected, _ = shared.covering(Gallery((VECTORS[:60], VECTORS[60:]), NUMBERS))
    assert_same_graph(covering(stored(np.arange(60)), np.arange(80)), expected)


def test_images_that_it_lacks_may_have_any_number() -> None:
    """As after a repair, which brings back lost images under their numbers."""
    lost = np.array([0, 10, 79])
    others = np.setdiff1d(np.arange(80), lost)
    order = np.concatenate([others, lost])
    shared = Neighbourhood(find_neighbours(VECTORS[others], SPACE))
    expected, _ = shared.covering(Gallery((VECTORS[others], VECTORS[lost]), np.arange(80)))
    graph = covering(stored(others), np.arange(80))
    assert_same_graph(
        Graph(graph.weights[order][:, order], graph.scale[order], graph.reach[order], graph.least), expected
    )


def test_rows_of_the_gallery_that_are_not_joined_have_no_neighbours() -> None:
    rows = np.arange(10, 50)
    graph = covering(stored(), rows)
    assert np.flatnonzero(np.diff(graph.weights.indptr)).tolist() == rows.tolist()
    np.testing.assert_allclose(graph.degrees[rows], GRAPH.degrees[rows], rtol=1e-5)
