"""Familiarity of vectors: a slow reference, foreign vectors, copies."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cbir.intake.familiarity import Familiarity

DIMENSIONS = 40


def images(count: int, seed: int) -> NDArray[np.float32]:
    """Vectors of three kinds, of different spread."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(3, 1, (3, DIMENSIONS))
    kind = random.integers(0, 3, count)
    noise = random.normal(0, 1, (count, DIMENSIONS)) * np.array([0.1, 0.3, 0.5])[kind, None]
    return (centres[kind] + noise).astype(np.float32)


def slow_log_ratio(vector: NDArray[np.float64], others: NDArray[np.float64], rows: list[int]) -> float:
    """Fifth distance over the root of the mean fifth distance of the five nearest, each among the others."""

    def fifth(of: NDArray[np.float64], among: list[int]) -> tuple[float, list[int]]:
        distances = sorted((float(np.linalg.norm(of - others[row])), row) for row in among)[:5]
        return distances[-1][0], [row for _, row in distances]

    distance, near = fifth(vector, rows)
    everyone = range(len(others))
    spread = np.mean([fifth(others[row], [each for each in everyone if each != row])[0] for row in near])
    return float(np.log(distance) - np.log(spread) / 2)


def nearest(vectors: NDArray[np.float32], sample: NDArray[np.float32]) -> NDArray[np.float32]:
    """Distances as in searches, here of the first five values; those of an image to itself do not count."""
    distances = np.linalg.norm(vectors[:, None, :5] - sample[None, :, :5], axis=2)
    distances[distances == 0] = np.inf
    return distances.min(axis=1).astype(np.float32)


def check(sample: NDArray[np.float32]) -> Familiarity:
    return Familiarity(sample, nearest(sample, sample))


def slow_familiarity(vector: NDArray[np.float32], sample: NDArray[np.float32]) -> float:
    units = sample.astype(np.float64) / np.linalg.norm(sample.astype(np.float64), axis=1, keepdims=True)
    unit = vector.astype(np.float64) / np.linalg.norm(vector.astype(np.float64))
    mean = units.mean(axis=0)
    centred = (units - mean) / np.linalg.norm(units - mean, axis=1, keepdims=True)
    searched = np.log(np.append(nearest(sample, sample), nearest(vector[None], sample)).astype(np.float64))
    middle, usual = np.median(searched[:-1]), np.quantile(searched[:-1], 0.99)
    scores = [(searched - middle) / (usual - middle)]
    for others, own in ((units, unit), (centred, (unit - mean) / np.linalg.norm(unit - mean))):
        everyone = range(len(others))
        logs = [
            slow_log_ratio(others[row], others, [each for each in everyone if each != row])
            for row in everyone
        ]
        middle, usual = np.median(logs), np.quantile(logs, 0.99)
        mine = slow_log_ratio(own, others, list(everyone))
        scores.append((np.array([*logs, mine]) - middle) / (usual - middle))
    strangeness = np.max(scores, axis=0)
    return float((strangeness[:-1] >= strangeness[-1] - 1e-9).sum() + 1) / (len(sample) + 1)


def test_the_slow_form_agrees() -> None:
    sample = images(40, 2)
    queries = np.concatenate([images(3, 3), images(1, 4) + 2])
    slow = [slow_familiarity(query, sample) for query in queries]
    familiar = check(sample).familiarity(queries, nearest(queries, sample))
    assert familiar == pytest.approx(slow, abs=1 / 41 + 1e-9)  # near ties


def test_like_images_are_found_as_rarely_as_the_p_value_says() -> None:
    sample, queries = images(600, 5), images(600, 6)
    familiar = check(sample).familiarity(queries, nearest(queries, sample))
    assert np.mean(familiar <= 0.1) == pytest.approx(0.1, abs=0.05)
    assert familiar.min() > 0
    assert familiar.max() <= 1


def test_an_image_between_kinds_is_strange_though_it_is_no_further_than_others() -> None:
    """It is as far from a narrow kind as images of a wide kind are from each other."""
    sample = images(600, 7)
    centre = np.random.default_rng(1).normal(3, 1, (3, DIMENSIONS))[0]
    beside = (centre + 0.45 * np.random.default_rng(8).normal(0, 1, (50, DIMENSIONS))).astype(np.float32)
    assert np.mean(check(sample).familiarity(beside, nearest(sample[:50], sample)) <= 0.01) > 0.9


def test_an_image_that_is_far_in_searches_alone_is_strange() -> None:
    sample = images(600, 7)
    far = np.full(20, 100, np.float32)
    assert check(sample).familiarity(images(20, 8), far) == pytest.approx(np.full(20, 1 / 601))


def test_the_length_of_vectors_counts_for_nothing() -> None:
    sample, queries = images(100, 9), images(20, 10)
    searched, near = nearest(sample, sample), nearest(queries, sample)
    assert Familiarity(2 * sample, searched).familiarity(3 * queries, near) == pytest.approx(
        Familiarity(sample, searched).familiarity(queries, near)
    )


def test_collections_of_copies_and_vectors_of_zeros_have_a_p_value() -> None:
    copies = np.repeat(images(1, 11), 50, axis=0)
    queries = np.concatenate([copies[:1], 0 * copies[:1], images(1, 12)])
    familiar = check(copies).familiarity(queries, np.float32([0, 9, 9]))
    assert np.isfinite(familiar).all()
    assert familiar[0] > familiar[2] == pytest.approx(1 / 51)


def test_p_values_of_usual_images_are_not_too_small() -> None:
    random = np.random.default_rng(0)
    collection, new = random.standard_normal((2, 400, 6), np.float32)
    collection /= np.linalg.norm(collection, axis=1, keepdims=True)
    new /= np.linalg.norm(new, axis=1, keepdims=True)
    among, to_new = (np.sqrt(np.maximum(2 - 2 * units @ collection.T, 0)) for units in (collection, new))
    np.fill_diagonal(among, np.inf)  # no image is a neighbour of its own
    values = Familiarity(collection, among.min(axis=1)).familiarity(new, to_new.min(axis=1))
    assert values.mean() == pytest.approx(0.5, abs=0.06)  # three standard deviations
