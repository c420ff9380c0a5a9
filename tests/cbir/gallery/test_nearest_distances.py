"""Distances of images to their nearest others, and how like a collection a query is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.gallery import knn
from cbir.gallery.gallery import Gallery, rank
from cbir.gallery.knn_graph import OUTLIER, Neighbourhood
from cbir.gallery.vector_blocks import Floats, plain_space


def units(count: int, seed: int, dimensions: int = 8) -> Floats:
    vectors = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def gallery_of(vectors: Floats, indexed: bool = False) -> Gallery:
    found = knn.find_neighbours(vectors, plain_space(vectors.shape[1])) if indexed else None
    neighbourhood = Neighbourhood(found) if found else None
    return Gallery((vectors,), np.arange(1, len(vectors) + 1), neighbourhood=neighbourhood, projected=True)


def likeness(gallery: Gallery, query: Floats) -> float | None:
    return gallery.nearest_distances.likeness(float(rank(query, gallery).distances.min()))


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
    assert value == 1 / 99 > OUTLIER


def test_copies_are_not_the_nearest_other() -> None:
    vectors = units(40, 0)
    twice = np.concatenate([vectors, vectors])
    query = units(1, 9)[0]
    assert likeness(gallery_of(twice), query) == pytest.approx((2 * 41 * reference(vectors, query) - 1) / 81)


@pytest.mark.parametrize("vectors", [units(0, 0), units(1, 0), np.repeat(units(1, 0), 200, axis=0)])
def test_there_is_no_scale_without_two_different_images(vectors: Floats) -> None:
    assert gallery_of(vectors).nearest_distances.likeness(1.0) is None


def test_added_images_leave_the_scale_of_the_snapshot() -> None:
    old, new = units(60, 0), units(30, 1) / 2
    found = knn.find_neighbours(old, plain_space(8))
    grown = Gallery((old, new), np.arange(90), neighbourhood=Neighbourhood(found))
    assert grown.nearest_distances.distances == pytest.approx(gallery_of(old).nearest_distances.distances)
