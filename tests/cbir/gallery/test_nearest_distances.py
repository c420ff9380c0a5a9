"""Distances of images to their nearest others, and how like a collection a query is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.gallery import knn
from cbir.gallery.gallery import Gallery
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.nearest_distances import OUTLIER
from cbir.gallery.ranking import rank
from cbir.gallery.vector_blocks import Floats
from cbir.gallery.whitening import plain_space
from cbir.search.query_likeness import query_likeness


def units(count: int, seed: int, dimensions: int = 8) -> Floats:
    vectors = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def gallery_of(vectors: Floats, indexed: bool = False) -> Gallery:
    found = knn.find_neighbours(vectors, plain_space(vectors.shape[1])) if indexed else None
    neighbourhood = Neighbourhood(found) if found else None
    return Gallery((vectors,), np.arange(1, len(vectors) + 1), neighbourhood=neighbourhood, projected=True)


def likeness(gallery: Gallery, *queries: Floats) -> float | None:
    lists = [rank(query, gallery) for query in queries]
    distances = np.min([ranking.distances for ranking in lists], axis=0)
    return query_likeness(gallery, queries, lists[0].rows, distances)


def reference(vectors: Floats, query: Floats) -> float:
    """Count the images, the query among them, whose nearest other is at least as far."""
    own = [min(np.linalg.norm(x - y) for j, y in enumerate(vectors) if j != i) for i, x in enumerate(vectors)]
    nearest = min(np.linalg.norm(query - x) for x in vectors)
    return (1 + sum(distance >= nearest for distance in own)) / (1 + len(vectors))


@pytest.mark.parametrize("indexed", [False, True])
@given(st.integers(0, 1000))
def test_likeness_is_the_share_of_images_at_least_as_far(indexed: bool, seed: int) -> None:
    vectors, query = units(30, seed), units(1, seed + 5000)[0]
    assert likeness(gallery_of(vectors, indexed), query) == pytest.approx(reference(vectors, query))


def test_one_in_a_hundred_images_of_the_same_kind_is_an_outlier() -> None:
    gallery = gallery_of(units(2000, 0))
    values = np.array([likeness(gallery, query) for query in units(1000, 1)])
    assert 0.002 <= np.mean(values <= OUTLIER) <= 0.02
    assert np.quantile(values, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.05)


def test_an_image_of_another_kind_is_an_outlier() -> None:
    vectors = units(500, 0)
    vectors[:, 0] = 0.0  # nothing points into the first direction
    foreign = np.eye(1, 8, dtype=np.float32)[0]
    assert likeness(gallery_of(vectors), foreign) == 1 / 501


def test_an_outlier_needs_a_hundred_images() -> None:
    far = -units(1, 0)[0]
    few = np.repeat(units(1, 0), 98, axis=0) + units(98, 1) / 100
    value = likeness(gallery_of(few), far)
    assert value is not None
    assert value == 1 / 99 > OUTLIER


def test_copies_are_not_the_nearest_other() -> None:
    vectors = units(40, 0)
    twice = np.concatenate([vectors, vectors])
    query = units(1, 9)[0]
    assert likeness(gallery_of(twice), query) == pytest.approx((2 * 41 * reference(vectors, query) - 1) / 81)


def test_the_most_like_of_several_queries_counts() -> None:
    vectors = units(50, 0)
    near, far = vectors[3] + 0.001 * units(1, 1)[0], -vectors[3]
    gallery = gallery_of(vectors)
    assert likeness(gallery, far, near) == likeness(gallery, near) > likeness(gallery, far)


@pytest.mark.parametrize("vectors", [units(0, 0), units(1, 0), np.repeat(units(1, 0), 200, axis=0)])
def test_there_is_no_scale_without_two_different_images(vectors: Floats) -> None:
    gallery = gallery_of(vectors)
    query = units(1, 4)[0]
    rows = np.arange(len(vectors))
    assert query_likeness(gallery, [query], rows, np.ones(len(vectors), np.float32)) is None


def test_there_is_no_likeness_without_an_answer() -> None:
    nothing = np.empty(0, np.int64)
    assert query_likeness(gallery_of(units(50, 0)), units(1, 1), nothing, np.empty(0, np.float32)) is None
