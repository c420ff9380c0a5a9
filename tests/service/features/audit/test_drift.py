"""Drift: false alarms of unchanged sources, and changes that are seen."""

from datetime import date

import numpy as np
import pytest

from service.features.audit.audited_images import AuditedImages
from service.features.audit.drift import (
    WEEKS,
    SetStatistics,
    alarm_threshold,
    block_ranks,
    compare_samples,
    count_alarms,
    exchange_blocks,
    find_drift,
    novelty_scores,
    sample_blocks,
)


def unit(points: np.ndarray) -> np.ndarray:
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def chance_of_each(units: np.ndarray, block: np.ndarray, newer: np.ndarray) -> np.ndarray:
    """Return the p-value of each statistic by 499 exchanges."""
    statistics = SetStatistics(units, block, ~newer)
    exchanged = statistics(exchange_blocks(block, int(newer.sum()), 499, np.random.default_rng(0)))
    observed = statistics(newer[:, None].astype(np.float32))
    return (1 + (exchanged >= observed).sum(axis=1)) / 500


def of_weeks(points: np.ndarray, per_week: int) -> AuditedImages:
    """Images that were added in weeks of so many."""
    count = len(points)
    added = np.datetime64("2026-01-05") + (np.arange(count) // per_week) * np.timedelta64(7, "D")
    names = [str(number) for number in range(count)]
    return AuditedImages(
        np.arange(count), names, names, unit(points), np.arange(count), np.full(count, -1), added
    )


@pytest.mark.parametrize("size", [1, 4])
def test_p_values_of_equal_samples_are_uniform(size: int) -> None:
    generator = np.random.default_rng(1)
    values = []
    for seed in range(40):
        centres = generator.normal(size=(120 // size, 8))
        points = np.repeat(centres, size, axis=0) + 0.1 * generator.normal(size=(120, 8))
        block = np.repeat(np.arange(120 // size), size)
        values.append(compare_samples(unit(points), block, np.arange(120) >= 80, 99, seed))
    small = np.mean(np.array(values) <= 0.1)
    assert small < 0.25  # 0.1 is expected, and more once in two hundred draws of 40
    assert 0.35 < np.mean(values) < 0.65


def test_slices_of_a_patient_that_count_as_independent_raise_false_alarms() -> None:
    generator = np.random.default_rng(0)
    points = np.repeat(generator.normal(size=(12, 8)), 10, axis=0) + 0.1 * generator.normal(size=(120, 8))
    newer = np.arange(120) >= 80
    assert compare_samples(unit(points), np.arange(120), newer, 199) < 0.02
    assert compare_samples(unit(points), np.repeat(np.arange(12), 10), newer, 199) > 0.02


def test_a_tenth_of_foreign_images_raises_an_alarm_and_shows_them() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(400, 16)) * 0.3 + np.eye(16)[0]
    foreign = 300 + np.arange(0, 100, 5)
    points[foreign] = generator.normal(size=(20, 16)) * 0.3 - np.eye(16)[0]
    (source,) = find_drift(of_weeks(points, 100), np.zeros(400, np.int64), ["room 1"])
    assert [week.alarm for week in source.weeks] == [False, True]  # of the third week on
    assert set(source.weeks[-1].image_ids) <= set(map(str, foreign.tolist()))
    assert source.weeks[-1].monday == date(2026, 1, 26)
    assert source.alarms == 1


def test_sources_of_one_week_and_of_few_images_have_no_checks() -> None:
    points = np.random.default_rng(0).normal(size=(300, 4))
    images = of_weeks(points, 300)
    assert find_drift(images, np.zeros(300, np.int64), ["a"])[0].weeks == []
    assert find_drift(of_weeks(points[:30], 10), np.zeros(30, np.int64), ["a"])[0].weeks == []


def test_alarms_of_consecutive_weeks_are_one() -> None:
    assert [count_alarms(weeks) for weeks in ([], [True], [True, True, False, True])] == [0, 1, 2]


def test_the_threshold_is_of_all_sources_in_a_year() -> None:
    assert alarm_threshold(1) * WEEKS == 1
    assert alarm_threshold(4) * WEEKS * 4 == 1


def test_one_patient_is_no_sample() -> None:
    points = unit(np.random.default_rng(0).normal(size=(20, 4)))
    assert compare_samples(points, np.repeat([0, 1], 10), np.arange(20) >= 10) == 1.0


def test_exchanges_keep_blocks_together_and_the_size() -> None:
    block = np.repeat(np.arange(10), 4)
    divisions = exchange_blocks(block, 12, 50, np.random.default_rng(0))
    assert (divisions.sum(axis=0) == 12).all()
    assert (divisions.reshape(10, 4, 50) == divisions[::4][:, None]).all()


def test_novelty_is_the_rank_of_the_third_nearest_older_image() -> None:
    units = unit(np.random.default_rng(0).normal(size=(30, 4)))
    block, older = np.arange(30), np.arange(30) < 20
    scores = novelty_scores(units @ units.T, block, older)
    third = [
        sorted((float(units[row] @ units[other]) for other in range(20) if other != row), reverse=True)[2]
        for row in range(30)
    ]
    assert np.argsort(-scores).tolist() == np.argsort(third).tolist()


def test_a_sample_has_whole_patients() -> None:
    block = np.random.default_rng(0).permutation(np.repeat(np.arange(50), 7))
    rows = np.arange(20, 340)
    sample = sample_blocks(block, rows, 100)
    assert 93 < len(sample) <= 100
    assert set(sample.tolist()) == set(rows[np.isin(block[rows], block[sample])].tolist())
    assert len(np.unique(block[sample_blocks(block, rows, 1)])) == 2


def test_ranks_count_earlier_images_of_a_patient() -> None:
    assert block_ranks(np.array([3, 1, 3, 3, 1])).tolist() == [0, 0, 1, 2, 1]
    assert block_ranks(np.empty(0, np.int64)).tolist() == []


def test_a_new_kind_among_others_that_resemble_it_raises_an_alarm() -> None:
    generator = np.random.default_rng(0)
    patients = generator.normal(size=(60, 16))
    block = np.concatenate([np.repeat(np.arange(60), 10), np.arange(60, 80)])
    kinds = np.concatenate([patients, np.tile(patients[3], (20, 1))])
    units = unit(kinds[block] + 0.5 * generator.normal(size=(620, 16)))
    newer = block >= 45
    discrepancy, novelty, neighbourhood = chance_of_each(units, block, newer)
    assert neighbourhood < 0.01 < min(discrepancy, novelty), (discrepancy, novelty)
    assert compare_samples(units, block, newer, 499) < 0.02


def test_shares_of_newer_neighbours_are_of_patients_and_not_of_images() -> None:
    points = np.random.default_rng(0).normal(size=(24, 3)) + 1.5
    block = np.array([0] * 5 + [1] * 3 + list(range(2, 18)))
    newer = block % 3 == 0
    centred = unit(unit(points) - unit(points).mean(axis=0))
    means = dict[int, list[float]]()
    for image in range(24):
        nearest = {
            other: max(float(centred[image] @ centred[row]) for row in np.flatnonzero(block == other))
            for other in range(18)
            if other != block[image]
        }
        five = sorted(nearest, key=nearest.__getitem__)[-5:]
        if newer[image]:
            means.setdefault(block[image], []).append((sum(other % 3 == 0 for other in five) / 5) ** 4)
    expected = np.mean([np.mean(values) for values in means.values()])
    statistics = SetStatistics(unit(points), block, ~newer)(newer[:, None].astype(np.float32))
    assert statistics[2, 0] == pytest.approx(expected, rel=1e-5)


def test_images_that_are_all_alike_do_not_differ() -> None:
    alike = np.tile(np.eye(1, 4, dtype=np.float32), (60, 1))
    values = [
        compare_samples(alike, np.arange(60), np.arange(60) >= older, 99, older) for older in range(20, 45)
    ]
    assert np.mean(np.array(values) <= 0.1) < 0.3
