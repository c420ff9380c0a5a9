"""The few candidates for the largest of many values, and the selection among them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.gallery.gallery import bottom_k, top_k
from cbir.gallery.vector_blocks import GROUPS, LEAST_MEMBERS, large_values


def slow_top_k(scores, count):
    """Return the indices of a stable sort."""
    return np.argsort(-scores.astype(np.float64), kind="stable")[:count]


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.sampled_from([2, 30, 10**6]))
def test_the_same_as_a_stable_sort(seed, count, levels):
    """Few levels make many ties, at the last place too."""
    random = np.random.default_rng(seed)
    scores = (random.integers(0, levels, random.integers(1, 6000)) / levels).astype(np.float32)
    np.testing.assert_array_equal(top_k(scores, count), slow_top_k(scores, count))
    np.testing.assert_array_equal(bottom_k(scores, count), len(scores) - 1 - slow_top_k(-scores[::-1], count))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_values_are_left_with_the_largest_among_them(dtype):
    scores = np.random.default_rng(0).standard_normal(100_000).astype(dtype)
    kept = large_values(scores, 10)
    assert kept is not None
    assert len(kept) < 100
    assert set(slow_top_k(scores, 10)) <= set(kept)


def test_values_behind_the_last_group_count():
    scores = -np.arange(GROUPS * LEAST_MEMBERS + 5.0)
    scores[-1] = 1.0
    np.testing.assert_array_equal(large_values(scores, 1), [0, len(scores) - 1])


def test_infinite_and_equal_values():
    scores = np.full(1000, -np.inf, np.float32)
    assert len(large_values(scores, 2)) == 1000
    np.testing.assert_array_equal(top_k(scores, 2), [0, 1])
    scores[[7, 900]] = 1.0
    np.testing.assert_array_equal(large_values(scores, 2), [7, 900])


@pytest.mark.parametrize(("values", "count"), [(0, 0), (0, 3), (100, 0), (GROUPS * LEAST_MEMBERS - 1, 1)])
def test_too_few_to_select_from(values, count):
    assert large_values(np.zeros(values), count) is None
