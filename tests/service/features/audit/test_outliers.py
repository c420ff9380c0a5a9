"""Images unlike the rest, and the blocks of images that are not independent."""

import numpy as np

from service.features.audit.audited_images import (
    find_independent,
    find_outliers,
    independent_blocks,
    join_blocks,
)


def test_a_far_image_is_found_and_a_rare_kind_is_not() -> None:
    generator = np.random.default_rng(0)
    points = np.eye(8)[0] + 0.1 * generator.normal(size=(200, 8))
    points[0] = -np.eye(8)[0]
    points[1:9] = np.eye(8)[1] + 0.05 * generator.normal(size=(8, 8))
    units = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    found = find_outliers(find_independent(units, np.arange(200), 15))
    assert found.rows[0] == 0
    assert len(found.rows) <= 2  # of 200, one may be beyond three standard deviations
    assert not np.isin(found.rows, np.arange(1, 9)).any()
    assert found.likeness[0] == 1 / 200


def test_equal_and_few_images_are_no_outliers() -> None:
    for count in (0, 1, 3, 20):
        units = np.tile(np.eye(1, 4, dtype=np.float32), (count, 1))
        found = find_outliers(find_independent(units, np.arange(count), 15))
        assert len(found.rows) == 0
        assert len(found.distance) == count


def test_blocks_join_copies_and_patients() -> None:
    block = independent_blocks(np.array([0, 0, -1, -1, 1]))
    assert len(set(block.tolist())) == 4
    joined = join_blocks(block, np.array([2, 4, 6, 8, 10]), [[4, 6, 99], [8, 10]])
    assert joined[0] == joined[1] == joined[2]
    assert joined[3] == joined[4] != joined[0]
