"""Matching places against a slow, obvious form; regions, borders and odd values."""

import numpy as np
import pytest

from cbir.search.feature_cells import FeatureCells, cosines, match_maps


def random_cells(rows, columns, channels=5, seed=0, texture=None):
    values = np.random.default_rng(seed).normal(size=(rows, columns, channels)).astype(np.float32)
    return FeatureCells(values, np.ones((rows, columns), np.float32) if texture is None else texture)


def slow_similarity(query, answer):
    """Mean of the cosines of two places and of those around them, within both images."""
    flat = [query.values.reshape(-1, 5), answer.values.reshape(-1, 5)]
    mean = np.concatenate(flat).astype(float).mean(axis=0)

    def cosine(a, b):
        first, second = query.values[a] - mean, answer.values[b] - mean
        return first @ second / np.linalg.norm(first) / np.linalg.norm(second)

    similar = {}
    for a in np.ndindex(query.values.shape[:2]):
        for b in np.ndindex(answer.values.shape[:2]):
            near = [
                cosine((a[0] + down, a[1] + right), (b[0] + down, b[1] + right))
                for down in (-1, 0, 1)
                for right in (-1, 0, 1)
                if 0 <= a[0] + down < query.values.shape[0]
                and 0 <= a[1] + right < query.values.shape[1]
                and 0 <= b[0] + down < answer.values.shape[0]
                and 0 <= b[1] + right < answer.values.shape[1]
            ]
            similar[a, b] = min(max(float(np.mean(near)), 0.0), 1.0)
    return similar


@pytest.mark.parametrize("shapes", [((4, 3), (3, 5)), ((1, 4), (4, 1)), ((2, 2), (2, 2))])
def test_maps_equal_the_slow_form(shapes):
    query, answer = random_cells(*shapes[0]), random_cells(*shapes[1], seed=1)
    similar = slow_similarity(query, answer)
    maps = match_maps(query, answer)
    for a in np.ndindex(shapes[0]):
        expected = max(similar[a, b] for b in np.ndindex(shapes[1]))
        assert maps.query[a] == pytest.approx(expected, abs=1e-5)
    for b in np.ndindex(shapes[1]):
        expected = max(similar[a, b] for a in np.ndindex(shapes[0]))
        assert maps.answer[b] == pytest.approx(expected, abs=1e-5)


def test_a_region_is_found_where_it_was_moved_to():
    query = random_cells(8, 8)
    values = np.random.default_rng(5).normal(size=(8, 8, 5)).astype(np.float32)
    values[4:7, 1:4] = query.values[1:4, 3:6]
    answer = FeatureCells(values, np.ones((8, 8), np.float32))
    maps = match_maps(query, answer, (3 / 8, 1 / 8, 3 / 8, 3 / 8))
    assert np.unravel_index(maps.answer.argmax(), (8, 8)) == (5, 2)
    assert np.argwhere(maps.query).min(axis=0).tolist() == [1, 3]
    assert np.argwhere(maps.query).max(axis=0).tolist() == [3, 5]


def test_a_region_smaller_than_a_cell_has_the_nearest_one():
    cells = random_cells(4, 4)
    maps = match_maps(cells, cells, (0.99, 0.0, 0.001, 0.001))
    assert np.argwhere(maps.query).tolist() == [[0, 3]]


def test_flat_places_match_nothing():
    texture = np.zeros((3, 3), np.float32)
    blank, other = random_cells(3, 3, texture=texture), random_cells(3, 3, seed=1)
    for maps in (match_maps(blank, other), match_maps(other, blank)):
        assert not maps.query.any()
        assert not maps.answer.any()


def test_equal_and_enormous_values_stay_between_0_and_1():
    same = FeatureCells(np.ones((3, 3, 5), np.float32), np.ones((3, 3), np.float32))
    assert not match_maps(same, same).answer.any()
    huge = FeatureCells(random_cells(3, 3).values * 1e38, np.ones((3, 3), np.float32))
    maps = match_maps(huge, random_cells(3, 3, seed=1))
    for values in maps:
        assert np.isfinite(values).all()
        assert 0 <= values.min() <= values.max() <= 1


def test_one_cell():
    single = random_cells(1, 1)
    assert match_maps(single, random_cells(1, 1, seed=1)).answer.shape == (1, 1)


def test_cosines_do_not_depend_on_the_scale():
    query, answer = random_cells(3, 2).values, random_cells(2, 2, seed=1).values
    assert cosines(query * 1000, answer * 1000) == pytest.approx(cosines(query, answer), abs=1e-5)


def test_a_map_of_the_middle_is_put_on_the_whole_image():
    middle = FeatureCells(random_cells(4, 4).values, np.ones((4, 4), np.float32), (0.25, 0.0, 0.5, 1.0))
    maps = match_maps(middle, random_cells(4, 4, seed=1))
    assert not maps.query[:, [0, 3]].any()
    assert maps.query[:, 1:3].any()
