"""The order of slices, and passes over the same places."""

import random
import time

import numpy as np
import pytest

from cbir.images.slice_order import (
    CYCLE,
    PlacedSlice,
    SlicePlace,
    order_slices,
    parallel_slices,
    separate_passes,
)

AXIAL, CORONAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0), (1.0, 0.0, 0.0, 0.0, 0.0, -1.0)


def slices(places, **facts):
    """Axial slices at z, named by their indices; facts: lists, or one value for all."""
    return [
        PlacedSlice(
            SlicePlace(
                (-100.0, -90.0, float(z)), AXIAL,
                **{name: value[n] if isinstance(value, list) else value for name, value in facts.items()},
            ),
            f"1.{n + 1}",
        )
        for n, z in enumerate(places)
    ]  # fmt: skip


def in_order(given):
    """Indices in the order of the slices; the order in which they are given must not matter."""
    expected = order_slices(given)
    for seed in range(3):
        mixed = random.Random(seed).sample(range(len(given)), len(given))
        assert [mixed[n] for n in order_slices([given[n] for n in mixed])] == expected
    return expected


def test_position_comes_before_numbers_and_uids():
    places = [5, 1, 4, 2, 3]
    given = slices(places, instance=[1, 2, 3, 4, 5])
    assert [places[n] for n in in_order(given)] == [1, 2, 3, 4, 5]


def test_without_positions_instance_numbers_then_uids_then_frames_decide():
    given = [PlacedSlice(SlicePlace(instance=number), uid, frame) for number, uid, frame in (
        (2, "1.1", 0), (1, "1.10", 0), (1, "1.9", 2), (1, "1.9", 1), (None, "1.2", 0),
    )]  # fmt: skip
    assert in_order(given) == [3, 2, 1, 0, 4]


@pytest.mark.parametrize("facts", [
    {"acquisition": [1] * 4 + [2] * 4},
    {"acquisition": 1, "time": [1000] * 4 + [2000] * 4},
    {"time": [1000, 1100, 1200, 1300, 5000, 5100, 5200, 5300]},
    {"time": [CYCLE - 400, CYCLE - 300, CYCLE - 200, CYCLE - 100, 0, 100, 200, 300]},
    {"temporal": [1] * 4 + [2] * 4},
    {"trigger": [0.0] * 4 + [40.5] * 4},
    {"acquisition": [1, 2, 3, 4, 5, 6, 7, 8]},
])  # fmt: skip
def test_passes_follow_each_other(facts):
    given = slices([0, 5, 10, 15] * 2, **facts)
    assert in_order(given) == list(range(8))
    assert separate_passes(given, range(8)).certain


def test_instance_numbers_tell_passes_apart_for_the_eye_alone():
    given = slices([0, 0, 5, 5, 10, 10], instance=[1, 4, 2, 5, 3, 6])
    assert in_order(given) == [0, 2, 4, 1, 3, 5]
    assert not separate_passes(given, range(6)).certain


def test_blocks_of_detectors_are_joined_to_passes():
    """Each rotation covers four places; both phases of one block come before the next block."""
    places = [0, 1, 2, 3] * 2 + [4, 5, 6, 7] * 2
    given = slices(places, acquisition=[number for number in (1, 2, 3, 4) for _ in range(4)])
    first, second = separate_passes(given, range(16)).stacks
    assert [places[n] for n in first] == [places[n] for n in second] == list(range(8))
    assert first == [0, 1, 2, 3, 8, 9, 10, 11]


def test_slices_of_single_rotations_are_one_pass():
    places = [6, 0, 4, 2, 5, 1, 3]
    passes = separate_passes(slices(places, acquisition=list(range(7))), range(7))
    assert [[places[n] for n in part] for part in passes.stacks] == [[0, 1, 2, 3, 4, 5, 6]]


def test_acquisitions_that_run_through_each_other_are_passes_of_their_own():
    places = [0, 5, 10, 15, 2, 7, 12, 17]
    given = slices(places, acquisition=[1] * 4 + [2] * 4)
    assert separate_passes(given, range(8)).stacks == [[0, 1, 2, 3], [4, 5, 6, 7]]
    fills_a_gap = slices([0, 1, 2, 10, 11, 12, 4, 5, 6], acquisition=[1] * 6 + [2] * 3)
    assert len(separate_passes(fills_a_gap, range(9)).stacks) == 1


def test_passes_of_unequal_length_by_times_alone_are_uncertain():
    given = slices([5, 10, 15, 0, 5, 10, 15], time=[1, 2, 3, 4, 5, 6, 7])
    assert not separate_passes(given, range(7)).certain


def test_noise_of_positions_and_directions_is_no_other_place():
    given = [
        PlacedSlice(
            SlicePlace(
                (300.0, 200.0, 2.0 * (n % 10) + noise), (1.0, 0.0, noise / 3, 0.0, 1.0, -noise / 3),
                acquisition=1 + n // 10,
            ),
            f"1.{n}",
        )
        for n, noise in enumerate([0.002, -0.003] * 10)
    ]  # fmt: skip
    assert [len(group) for group in parallel_slices(given)] == [20]
    assert separate_passes(given, range(20)).stacks == [list(range(10)), list(range(10, 20))]


def test_a_localizer_comes_where_its_number_is():
    localizer = [
        PlacedSlice(SlicePlace((0.0, float(n), 0.0), CORONAL, instance=n + 1), f"9.{n}") for n in range(2)
    ]
    given = slices([3, 2, 1], instance=[3, 4, 5]) + localizer
    assert in_order(given) == [3, 4, 2, 1, 0]


def test_oblique_slices_are_ordered_along_their_normal():
    """A tilted gantry: z grows, and so does y by the tilt."""
    tilted = (1.0, 0.0, 0.0, 0.0, 0.95106, -0.30902)
    places = [(0.0, -0.3 * n, 5.0 * n) for n in (3, 0, 2, 1)]
    given = [PlacedSlice(SlicePlace(location, tilted), f"1.{n}") for n, location in enumerate(places)]
    assert in_order(given) == [1, 3, 2, 0]


def test_nothing_and_one():
    assert order_slices([]) == []
    assert order_slices([PlacedSlice(SlicePlace())]) == [0]
    assert order_slices(slices([4])) == [0]


def test_thousands_of_frames_at_one_place_are_ordered_at_once():
    """Frames of a beating heart: their order takes a fraction of a second, and not one for each pair of frames."""
    frames = 4000
    given = [
        PlacedSlice(SlicePlace((0.0, 0.0, 0.0), AXIAL, trigger=float(frames - n)), "1.2", n)
        for n in range(frames)
    ]
    started = time.process_time()
    assert order_slices(given) == [*range(frames)][::-1]
    assert time.process_time() - started < 5


def test_thousands_of_orientations_are_ordered_at_once():
    """A probe or detector that turns: no two frames are parallel."""
    angles = np.radians(np.linspace(0, 359, 6000))
    given = [
        PlacedSlice(
            SlicePlace((0.0, 0.0, 0.0), (float(np.cos(a)), float(np.sin(a)), 0.0, 0.0, 0.0, -1.0)), "1.2", n
        )
        for n, a in enumerate(angles)
    ]
    started = time.process_time()
    assert sorted(order_slices(given)) == list(range(len(given)))
    assert time.process_time() - started < 3
    assert len(parallel_slices(given)) > 300
    scattered = [
        PlacedSlice(
            SlicePlace((0.0, 0.0, 0.0), tuple(np.linalg.qr(random)[0][:2].ravel().tolist())), "1.2", n
        )
        for n, random in enumerate(np.random.default_rng(0).normal(size=(6000, 3, 3)))
    ]
    started = time.process_time()
    assert sorted(order_slices(scattered)) == list(range(len(given)))
    assert time.process_time() - started < 3


def test_parallel_slices_are_within_half_a_degree_of_the_first():
    def turned(degrees):
        angle = np.radians(degrees)
        return (
            float(np.cos(angle)),
            float(np.sin(angle)),
            0.0,
            float(-np.sin(angle)),
            float(np.cos(angle)),
            0.0,
        )

    angles = [0.0, 0.4, -0.4, 0.6, 90.0, 0.9, 90.3, -0.6]
    given = [PlacedSlice(SlicePlace((0.0, 0.0, float(n)), turned(a))) for n, a in enumerate(angles)]
    assert parallel_slices(given) == [[0, 1, 2], [3, 5], [4, 6], [7]]
