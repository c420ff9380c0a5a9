"""Neighbours of images, the graph they make, and how it keeps up with what is added."""

import numpy as np
import pytest

from cbir.errors import DeviceFailed
from cbir.gallery import knn, knn_graph, knn_lists
from cbir.gallery import vector_blocks as whitening
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn_graph import Neighbourhood, nearest_columns
from cbir.gallery.knn_lists import add_reverse_neighbours
from cbir.system import device_failure
from cbir.system.device import DeviceChoice
from tests.cbir.system.device_errors import failing
from tests.cbir.system.imagined_gpu import ImaginedIndex

PARTS = ((0, 4), (4, 10))


def clustered(count: int, dimensions: int = 10, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.standard_normal((7, dimensions)) * 2
    spread = random.standard_normal((count, dimensions)) * 0.5
    return (centres[random.integers(0, 7, count)] + spread).astype(np.float32)


def obvious(vectors: np.ndarray, fitted: whitening.Space) -> tuple[np.ndarray, np.ndarray]:
    """All squared distances (n, n) within the space, from differences of float64 vectors of length 1."""
    placed = (vectors.astype(float) - fitted.centre) @ fitted.projection.astype(float)
    placed /= np.linalg.norm(placed, axis=1, keepdims=True)
    apart = ((placed[:, None] - placed[None]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    return apart, placed


def test_space_damps_correlations_and_balances_parts() -> None:
    random = np.random.default_rng(1)
    vectors = (random.standard_normal((500, 10)) @ random.standard_normal((10, 10))).astype(np.float32)
    fitted = whitening.fit_space(vectors, PARTS)
    placed, lengths = fitted.transform(vectors)
    np.testing.assert_allclose(np.linalg.norm(placed, axis=1), 1.0, rtol=1e-5)
    raw = np.linalg.eigvalsh(np.cov(vectors.T))
    damped = np.linalg.eigvalsh(np.cov((placed * lengths[:, None]).T))
    assert damped[-1] / damped[0] < raw[-1] / raw[0]
    plain = whitening.fit_space(vectors).projection
    assert not np.allclose(plain, fitted.projection)


def test_plain_space_is_that_of_the_identity() -> None:
    vectors = clustered(60)
    identity = whitening.Space(np.zeros(10, np.float32), np.eye(10, dtype=np.float32))
    spaces = (whitening.plain_space(10), identity)
    units, lengths = spaces[0].transform(vectors)
    for plain, expected in zip((units, lengths), identity.transform(vectors), strict=True):
        np.testing.assert_array_equal(plain, expected)
    np.testing.assert_array_equal(*(space.projections(units) for space in spaces))
    np.testing.assert_array_equal(*(knn.find_neighbours(vectors, space).rows for space in spaces))
    assert not np.shares_memory(units, vectors)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_space_and_neighbours_of_hardly_any_images(count: int) -> None:
    vectors = clustered(count)
    found = knn.find_neighbours(vectors, whitening.fit_space(vectors, PARTS))
    assert found.rows.shape == (count, knn.NEAREST)
    assert (found.rows >= 0).sum() == (2 if count == 2 else 0)
    assert len(knn_graph.build_graph(found)) == count


def test_neighbours_are_those_of_the_obvious_way() -> None:
    vectors = clustered(300)
    fitted = whitening.fit_space(vectors, PARTS)
    found = knn.find_neighbours(vectors, fitted)
    apart, _ = obvious(vectors, fitted)
    np.testing.assert_array_equal(found.rows, np.argsort(apart, axis=1)[:, : knn.NEAREST])
    nearest = np.sort(apart, axis=1)[:, : knn.NEAREST]
    np.testing.assert_allclose(found.squared, nearest, atol=1e-5)


def test_images_all_alike_are_neighbours_but_not_their_own() -> None:
    vectors = np.ones((30, 10), np.float32)
    found = knn.find_neighbours(vectors, whitening.fit_space(vectors, PARTS))
    assert (found.rows >= 0).all()
    assert (found.rows != np.arange(30)[:, None]).all()
    assert np.isfinite(knn_graph.build_graph(found).weights.data).all()


def test_many_images_are_searched_by_lists_and_hardly_any_neighbour_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vectors = clustered(3000)
    fitted = whitening.fit_space(vectors, PARTS)
    exact = knn.find_neighbours(vectors, fitted)
    monkeypatch.setattr(knn, "EXACT", 100)
    found = knn.find_neighbours(vectors, fitted)
    shared = [len(np.intersect1d(a, b)) for a, b in zip(exact.rows, found.rows, strict=True)]
    assert np.mean(shared) > 0.9 * knn.NEAREST
    again = knn.find_neighbours(vectors, fitted)
    np.testing.assert_array_equal(found.rows, again.rows)


def test_weights_of_the_graph() -> None:
    vectors = clustered(60)
    found = knn.find_neighbours(vectors, whitening.fit_space(vectors, PARTS))
    joined = knn_graph.build_graph(found)
    scale = np.sqrt(found.squared[:, knn_graph.SCALE - 1])
    expected = np.zeros((60, 60))
    for image in range(60):
        for row, squared in zip(found.rows[image], found.squared[image], strict=True):
            weight = 0.5 * np.exp(-squared / (scale[image] * scale[row]))
            expected[image, row] += weight
            expected[row, image] += weight
    np.testing.assert_allclose(joined.weights.toarray(), expected, rtol=1e-5)
    np.testing.assert_allclose(joined.degrees, expected.sum(axis=0), rtol=1e-5)


def test_edges_are_those_of_an_image_that_is_there() -> None:
    """What an outside image is joined with: as if it were in the graph, but for the places it would take."""
    vectors = clustered(200)
    fitted = whitening.fit_space(vectors, PARTS)
    apart, _ = obvious(vectors, fitted)
    joined = knn_graph.build_graph(knn.find_neighbours(vectors, fitted))
    inside = joined.weights[[0]].toarray()[0]
    edges = joined.edges(apart[0].astype(np.float32))
    np.testing.assert_allclose(edges[inside > 0], inside[inside > 0], rtol=1e-3)
    assert edges[0] == 0.0


def test_images_that_were_added_are_joined() -> None:
    vectors = clustered(400)
    fitted = whitening.fit_space(vectors[:350], PARTS)
    shared = Neighbourhood(knn.find_neighbours(vectors[:350], fitted))
    ids = np.arange(400)
    assert len(shared.covering(Gallery((vectors[:350],), ids[:350], PARTS, shared))[0]) == 350
    shared.covering(Gallery((vectors[:350], vectors[350:370]), ids[:370], PARTS, shared))
    joined, lengths = shared.covering(Gallery((vectors[:350], vectors[350:]), ids, PARTS, shared))
    apart, _ = obvious(vectors, fitted)
    assert len(joined) == len(lengths) == 400
    for added in range(380, 400):
        nearest = np.argsort(apart[added])[: knn.NEAREST]
        assert (joined.weights[[added]].toarray()[0][nearest] > 0).all()
    assert (abs(joined.weights - joined.weights.T) > 1e-6).nnz == 0


def test_copies_share_a_list_and_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is far longer than the others costs no more than MOST lists, and copies are at distance 0."""
    monkeypatch.setattr(knn, "EXACT", 100)
    compared: list[int] = []
    largest = knn_lists._largest
    monkeypatch.setattr(knn_lists, "MOST", 4)
    monkeypatch.setattr(
        knn_lists,
        "_largest",
        lambda products, k: (compared.append(products.shape[1]), largest(products, k))[1],
    )
    vectors = clustered(2500)
    vectors[400:1900] = vectors[3]
    found = knn.find_neighbours(vectors, whitening.fit_space(vectors, PARTS))
    assert max(compared) <= max(4 * 2500 / 100, knn_lists.COMPARED)
    assert (found.rows != np.arange(2500)[:, None]).all()
    assert found.squared[400:1900].max() < 1e-5
    assert all(len(set(rows)) == knn.NEAREST for rows in found.rows.tolist())


def test_lists_with_hardly_any_images_leave_places_empty() -> None:
    units = np.eye(4, 10, dtype=np.float16)
    lists = knn_lists.UnitLists(
        units, np.array([2, 0, 1, 3]), np.array([0, 3, 4]), np.array([[0], [1]]), np.ones(4, np.float32)
    )
    rows, squared = knn_lists.nearest_in_lists(lists, 5)
    assert [sorted(row) for row in rows.tolist()] == [
        [-1, -1, -1, 1, 2], [-1, -1, -1, 0, 2], [-1, -1, -1, 0, 1], [-1] * 5,
    ]  # fmt: skip
    np.testing.assert_array_equal(squared[:, :2], [[2, 2], [2, 2], [2, 2], [np.inf, np.inf]])
    assert np.isinf(squared[:, 2:]).all()


@pytest.mark.parametrize("columns", [3, 40, 128, 129, 1000])
def test_the_largest_products_are_those_of_sorting(columns: int) -> None:
    products = np.random.default_rng(columns).standard_normal((50, columns)).astype(np.float32)
    chosen = knn_lists._largest(products, 8)
    expected = np.sort(products, axis=1)[:, -8:]
    np.testing.assert_array_equal(np.sort(np.take_along_axis(products, chosen, axis=1), axis=1), expected)


def test_reverse_neighbours_are_those_of_the_obvious_way() -> None:
    random = np.random.default_rng(5)
    held = random.standard_normal((60, 4)).astype(np.float32)
    apart = ((held[:, None] - held[None]) ** 2).sum(axis=2).astype(np.float32)
    np.fill_diagonal(apart, np.inf)
    rows = np.full((60, 3), -1, np.int32)
    squared = np.full((60, 3), np.inf, np.float32)
    for image in range(60):  # the nearest of half of the others, as if the rest had been missed
        seen = random.permutation(60)[: random.integers(0, 30)]
        nearest = [other for other in seen[np.argsort(apart[image, seen])] if other != image][:3]
        rows[image, : len(nearest)], squared[image, : len(nearest)] = nearest, apart[image, nearest]
    expected = []
    for image in range(60):
        known = {int(row) for row in rows[image] if row >= 0} | set(
            np.flatnonzero((rows == image).any(axis=1)).tolist()
        )
        expected.append(sorted(known, key=lambda other: apart[image, other])[:3])
    before = np.count_nonzero(rows >= 0)
    add_reverse_neighbours(rows, squared)
    assert np.count_nonzero(rows >= 0) > before
    assert [[row for row in found if row >= 0] for found in rows.tolist()] == expected
    for image, found in enumerate(expected):
        np.testing.assert_array_equal(squared[image, : len(found)], apart[image, found])


@pytest.mark.parametrize("times", [1, 20])
def test_a_graph_that_follows_additions_joins_nearly_all_neighbours(times: int) -> None:
    """Half of the images are added in `times` parts, to a graph that is not made again."""
    held, fitted = clustered(600), whitening.fit_space(clustered(600))
    shared = Neighbourhood(knn.find_neighbours(held[:300], fitted))
    for count in np.linspace(300, 600, times + 1).astype(int)[1:]:
        graph, _ = shared.covering(Gallery((held[:300], held[300:count]), np.arange(count), PARTS, shared))
    exact = knn.find_neighbours(held, fitted).rows
    joined = np.take_along_axis(graph.weights.toarray(), exact.astype(np.int64), axis=1) > 0
    assert joined[:300].mean() > 0.75
    assert joined[300:].mean() > 0.9


def test_neighbours_on_a_gpu_are_the_nearest_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the processor under its name; those of a GPU that fails are found as without one."""
    vectors, space = clustered(600), whitening.fit_space(clustered(600))
    exact = knn.find_neighbours(vectors, space)
    monkeypatch.setattr(knn, "EXACT", 100)
    monkeypatch.setattr(knn, "choose_device", lambda device: DeviceChoice("cuda", "a test"))
    monkeypatch.setattr(knn, "faiss_gpu_problem", lambda: None)
    monkeypatch.setattr(knn, "create_gpu_index", ImaginedIndex)
    found = knn.find_neighbours(vectors, space, "cuda")
    np.testing.assert_array_equal(found.rows, exact.rows)
    np.testing.assert_allclose(found.squared, exact.squared, atol=1e-5)
    np.testing.assert_array_equal(found.lengths, exact.lengths)
    monkeypatch.setattr(device_failure, "_failures", device_failure._FailureLog())
    monkeypatch.setattr(ImaginedIndex, "search", failing("sticky"))
    with pytest.raises(DeviceFailed, match=r"the GPU failed \(neighbours\)"):
        knn.find_neighbours(vectors, space, "cuda")
    instead = knn.find_neighbours(vectors, space, "auto")
    monkeypatch.undo()
    monkeypatch.setattr(knn, "EXACT", 100)
    np.testing.assert_array_equal(instead.rows, knn.find_neighbours(vectors, space).rows)


def test_the_nearest_columns_of_each_row_come_in_order() -> None:
    squared = np.random.default_rng(3).random((7, 40)).astype(np.float32)
    squared[2, 5:] = np.inf
    columns, values = nearest_columns(squared, 5)
    np.testing.assert_array_equal(columns, np.argsort(squared, axis=1)[:, :5])
    np.testing.assert_array_equal(values, np.sort(squared, axis=1)[:, :5])
