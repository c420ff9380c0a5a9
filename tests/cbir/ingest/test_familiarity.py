"""Familiarity of vectors: a slow reference, foreign vectors, patients, copies."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cbir.descriptors.encoders.encoder_files import EncoderOutput
from cbir.ingest.collection_check import (
    LEAST_DIFFERENCE,
    LEAST_FAMILIAR,
    NEIGHBOURS,
    Familiarity,
    NeighbourSpace,
    _unit,
    columns_of_maxima,
)

DIMENSIONS = 40
NO_MAXIMA = slice(0, 0)


def images(count: int, seed: int) -> NDArray[np.float32]:
    """Vectors of three kinds, of different spread."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(3, 1, (3, DIMENSIONS))
    kind = random.integers(0, 3, count)
    noise = random.normal(0, 1, (count, DIMENSIONS)) * np.array([0.1, 0.3, 0.5])[kind, None]
    return (centres[kind] + noise).astype(np.float32)


def of_many_patients(vectors: NDArray[np.float32], maxima: slice = NO_MAXIMA) -> Familiarity:
    return Familiarity(vectors, np.arange(len(vectors)), maxima)


def slow_logs(
    vectors: NDArray[np.float64], patients: NDArray[np.int64], new: NDArray[np.float64]
) -> tuple[list[float], list[float]]:
    """Logarithms of the collection and of new images, with every step written out in doubles."""
    mean = vectors.mean(axis=0)
    directions = np.linalg.svd(vectors - mean, full_matrices=False)[2]
    values, new_values = (vectors - mean) @ directions.T, (new - mean) @ directions.T
    units = values / np.linalg.norm(values, axis=1, keepdims=True)

    def nearest(of: NDArray[np.float64], among: NDArray[np.float64], patient: int) -> list[tuple[float, int]]:
        pairs = [(float(np.linalg.norm(of - other)), row) for row, other in enumerate(among)]
        return sorted(pair for pair in pairs if patients[pair[1]] != patient)

    pairs = [nearest(unit, units, patient)[0][1] for unit, patient in zip(units, patients, strict=True)]
    differences = values - values[pairs]
    scatter = differences.T @ differences / len(values) / 2
    scatter += 0.03 * np.trace(scatter) / len(scatter) * np.eye(len(scatter))
    size, axes = np.linalg.eigh(scatter)
    whitening = axes / np.sqrt(size)
    values, new_values = values @ whitening, new_values @ whitening
    lists = [nearest(value, values, patient) for value, patient in zip(values, patients, strict=True)]
    spread = [near[NEIGHBOURS - 1][0] for near in lists]

    def log(near: list[tuple[float, int]]) -> float:
        around = np.mean([spread[row] for _, row in near[:NEIGHBOURS]])
        return float(np.log(near[NEIGHBOURS - 1][0]) - np.log(around) / 2)

    return [log(near) for near in lists], [log(nearest(value, values, -1)) for value in new_values]


def test_the_slow_form_agrees() -> None:
    vectors, patients = images(120, 2), np.arange(120) // 3
    new = np.concatenate([images(4, 3), images(2, 4) + 2])
    space = NeighbourSpace(vectors, patients, DIMENSIONS)
    slow_own, slow_new = slow_logs(vectors.astype(float), patients, new.astype(float))
    assert space.logs == pytest.approx(slow_own, abs=1e-3)
    assert space(new) == pytest.approx(slow_new, abs=1e-3)


def test_like_images_are_found_as_rarely_as_the_p_value_says() -> None:
    familiar = of_many_patients(images(600, 5), slice(20, 40)).familiarity(images(600, 6))
    assert np.mean(familiar <= 0.1) == pytest.approx(0.1, abs=0.05)
    assert familiar.mean() == pytest.approx(0.5, abs=0.06)
    assert 0 < familiar.min() <= familiar.max() <= 1


def test_one_foreign_image_in_the_collection_does_not_hide_others() -> None:
    random = np.random.default_rng(8)
    foreign, new = random.normal(3, 1, (2, DIMENSIONS)).astype(np.float32)
    sample = np.concatenate([images(LEAST_FAMILIAR, 7), foreign[None]])
    alone = of_many_patients(sample)
    assert alone._ascending[-1] > alone._ascending[-2] + 0.5
    assert alone.familiarity(new[None])[0] <= 0.001


@pytest.mark.parametrize(("count", "most"), [(LEAST_FAMILIAR, 0.006), (1000, 0.002)])
def test_like_images_seldom_lie_in_the_far_tail(count: int, most: float) -> None:
    draws = [of_many_patients(images(count, seed)).familiarity(images(500, seed + 50)) for seed in range(4)]
    assert np.mean([familiar <= 0.001 for familiar in draws]) <= most


def test_p_values_fall_with_strangeness_and_the_tail_begins_where_counting_ends() -> None:
    check = of_many_patients(images(400, 5))
    queries = np.concatenate([images(300, 6), images(100, 7) + np.linspace(0, 1, 100)[:, None]])
    strangeness = check._strangeness([space(_unit(queries, LEAST_DIFFERENCE)) for space in check._spaces])
    familiar = check.familiarity(queries.astype(np.float32))[np.argsort(strangeness)]
    assert (np.diff(familiar) <= 1e-9).all()
    steps = -np.diff(familiar)[familiar[:-1] < 0.2]
    assert steps.max() < 0.03
    assert 0 < familiar[-1] < 1e-3


def test_images_of_a_new_patient_are_found_rarely() -> None:
    """Images of a patient are nearly alike: compared with each other they would make all new ones strange."""
    random = np.random.default_rng(3)
    patients = np.repeat(np.arange(400), 4)
    sample = images(400, 5)[patients] + random.normal(0, 0.01, (1600, DIMENSIONS)).astype(np.float32)
    new = images(400, 6)
    assert np.mean(Familiarity(sample, patients, NO_MAXIMA).familiarity(new) <= 0.1) < 0.3
    assert np.mean(of_many_patients(sample).familiarity(new) <= 0.1) > 0.5


def test_another_kind_is_strange() -> None:
    beside = np.random.default_rng(8).normal(3, 1, (50, DIMENSIONS)).astype(np.float32)
    assert of_many_patients(images(600, 7)).familiarity(beside).max() < 1e-4


def test_an_image_between_kinds_is_strange_though_it_is_no_further_than_others() -> None:
    """It is as far from a narrow kind as images of a wide kind are from each other."""
    centre = np.random.default_rng(1).normal(3, 1, (3, DIMENSIONS))[0]
    beside = (centre + 0.45 * np.random.default_rng(8).normal(0, 1, (50, DIMENSIONS))).astype(np.float32)
    assert np.mean(of_many_patients(images(600, 7)).familiarity(beside) <= 0.01) > 0.9


def test_maxima_that_are_strange_count_as_much_as_all_values() -> None:
    """They are small: among all values the difference is lost."""
    random = np.random.default_rng(4)

    def with_maxima(count: int, seed: int, kind: float) -> NDArray[np.float32]:
        maxima = 0.05 * (random.normal(0, 0.2, (count, 20)) + kind * np.resize([1, -1], 20) + 3)
        return np.hstack([images(count, seed), images(count, seed + 9), maxima]).astype(np.float32)

    sample, new = with_maxima(600, 1, 0.0), with_maxima(50, 2, 3.0)
    assert np.mean(of_many_patients(sample, slice(80, 100)).familiarity(new) <= 0.01) > 0.9
    assert np.mean(of_many_patients(sample).familiarity(new) <= 0.01) < 0.5


def test_the_length_of_vectors_counts_for_nothing() -> None:
    sample, queries = images(100, 9), images(20, 10)
    doubled = of_many_patients(2 * sample).familiarity(3 * queries)
    assert doubled == pytest.approx(of_many_patients(sample).familiarity(queries), abs=0.02)  # near ties


def test_collections_of_copies_of_one_patient_and_vectors_of_zeros_have_a_p_value() -> None:
    copies = np.repeat(images(1, 11), 50, axis=0)
    queries = np.concatenate([copies[:1], 0 * copies[:1], images(1, 12)])
    for patients in (np.arange(50), np.zeros(50, np.int64)):
        familiar = Familiarity(copies, patients, NO_MAXIMA).familiarity(queries)
        assert np.isfinite(familiar).all()
        assert familiar[0] == 1


def test_a_copy_of_an_image_that_the_collection_has_often_is_familiar() -> None:
    sample = np.concatenate([images(300, 13), np.repeat(images(1, 14), 20, axis=0)])
    assert of_many_patients(sample).familiarity(images(1, 14)) > 0.5
    assert of_many_patients(sample).familiarity(images(1, 14) * 1.0 + 1e-3) > 0.01


def test_columns_of_maxima_are_the_last_outputs() -> None:
    def output(pooling: str, dimensions: int) -> EncoderOutput:
        return EncoderOutput.model_validate({"tensor": "x", "pooling": pooling, "dimensions": dimensions})

    assert columns_of_maxima([output("grid", 9), output("max", 3), output("max", 4)]) == slice(9, 16)
    assert columns_of_maxima([output("max", 3), output("grid", 9)]) == slice(12, 12)
