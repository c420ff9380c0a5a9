"""Directions learnt from nearest neighbours, against a reference that goes through every pair."""

import numpy as np
import pytest

from cbir.gallery import knn
from cbir.gallery.knn import learn_directions, pair_scatter


def slow_scatter(values: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Mean over images of the mean of (x - y)(x - y)^T over their mutual neighbours."""
    means = []
    for image, near in enumerate(neighbours.tolist()):
        mutual = [other for other in near if other >= 0 and image in neighbours[other]]
        differences = [values[image] - values[other] for other in mutual]
        if differences:
            means.append(np.mean([np.outer(difference, difference) for difference in differences], axis=0))
    return np.mean(means, axis=0) if means else np.zeros((values.shape[1],) * 2)


@pytest.mark.parametrize("seed", range(4))
def test_scatter_is_that_of_every_mutual_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(40, 5)).astype(np.float32)
    order = np.argsort(rng.random((40, 40)) + 9 * np.eye(40), axis=1)[:, :6]
    neighbours = np.where(rng.random((40, 6)) < 0.1, -1, order).astype(np.int32)
    np.testing.assert_allclose(pair_scatter(values, neighbours), slow_scatter(values, neighbours), rtol=1e-4)


def test_no_mutual_pair_is_no_scatter() -> None:
    values = np.eye(3, dtype=np.float32)
    np.testing.assert_array_equal(pair_scatter(values, np.array([[1], [2], [0]], np.int32)), np.zeros((3, 3)))


def test_directions_whiten_what_neighbours_differ_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without floor and emphasis, all directions kept: the scatter of pairs becomes a multiple of the identity."""
    monkeypatch.setattr(knn, "FLOOR", 0.0)
    monkeypatch.setattr(knn, "EMPHASIS", 0.0)
    rng = np.random.default_rng(1)
    values = (rng.normal(size=(300, 6)) * [5, 4, 3, 2, 1, 0.5]).astype(np.float32)
    learnt = learn_directions(values, values.astype(float).var(axis=0), 6)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    neighbours = np.argsort(-cosines, axis=1)[:, : knn.PAIRED].astype(np.int32)
    whitened = slow_scatter(values @ learnt, neighbours)
    np.testing.assert_allclose(whitened / whitened[0, 0], np.eye(6), atol=1e-2)


def test_images_of_a_kind_come_nearer() -> None:
    """Kinds differ in ten directions, images of a kind in one that varies more than all of them."""
    rng = np.random.default_rng(0)
    kinds = np.arange(400) % 20
    values = np.concatenate([rng.normal(size=(20, 10))[kinds], rng.normal(size=(400, 1)) * 2], axis=1)
    values += rng.normal(size=values.shape) * 0.2
    values = (values - values.mean(axis=0)).astype(np.float32)
    order = np.argsort(-values.var(axis=0))
    values = values[:, order]

    def precision(vectors: np.ndarray) -> float:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = unit @ unit.T
        np.fill_diagonal(cosines, -2)
        nearest = np.argsort(-cosines, axis=1)[:, :19]
        return float((kinds[nearest] == kinds[:, None]).mean())

    learnt = learn_directions(values, values.astype(float).var(axis=0), 11)
    assert precision(values @ learnt) > precision(values) + 0.05


@pytest.mark.parametrize("count", [1, 2, 50])
def test_images_that_are_all_alike_or_one_alone(count: int) -> None:
    learnt = learn_directions(np.zeros((count, 4), np.float32), np.zeros(4), 2)
    assert learnt.shape == (4, 2)
    assert np.isfinite(learnt).all()


def test_the_same_images_give_the_same_directions() -> None:
    values = np.random.default_rng(3).normal(size=(100, 8)).astype(np.float32)
    first, second = (learn_directions(values, np.ones(8), 4) for _ in range(2))
    np.testing.assert_array_equal(first, second)
