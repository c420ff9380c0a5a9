"""Sums over pairs of differently graded images, without forming the pairs.

A pair (i, j) is of one list, i graded higher than j. Levels of grades are numbered; every pair differs first at one
binary place of these numbers, so that pairs fall into log2(levels) rounds, each of which sets "left" images (0 at
that place) against "right" ones (1). Within a round the partners of an image are a range of the other side sorted by
score: found by binary search, summed by differences of running sums. (The same sums as the order-statistic trees of
Lee & Lin 2014, Large-scale linear rankSVM, in array operations.)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Pairs:
    """The pairs of grades (n,) within lists (n,)."""

    def __init__(self, grades: Floats, lists: Integers) -> None:
        levels = np.unique(grades, return_inverse=True)[1]
        self.rounds: list[
            tuple[Integers, Integers, Integers]
        ] = []  # left rows, right rows, block of every row
        for place in range(int(levels.max()).bit_length()):
            higher = levels >> (place + 1)
            block = np.unique(lists * (int(higher.max()) + 1) + higher, return_inverse=True)[1]
            is_right = (levels >> place) & 1 == 1
            self.rounds.append((np.flatnonzero(~is_right), np.flatnonzero(is_right), block))

    def within(self, scores: Floats, margin: float) -> "Within":
        """The pairs whose scores (n,) are in the wrong order, or in the right one by less than `margin`."""
        return Within(
            len(scores), [_ranges(left, right, block, scores, margin) for left, right, block in self.rounds]
        )


@dataclass(frozen=True, eq=False)
class _Ranges:
    """One round: sorted rows of either side, and where in the other side's order each one's partners are."""

    left: Integers
    right: Integers
    left_stop: Integers  # for each of left: right partners are [left_start, left_stop)
    left_start: Integers
    right_start: Integers
    right_stop: Integers


class Within:
    """Sums over the partners of every image."""

    def __init__(self, count: int, rounds: list[_Ranges]) -> None:
        self.count = count
        self.rounds = rounds

    def of_lower(self, values: Floats) -> Floats:
        """For each image (n,), the sum of `values` over its partners of lower grade."""
        sums = np.zeros(self.count)
        for one in self.rounds:
            running = _running(values[one.left])
            sums[one.right] += running[one.right_stop] - running[one.right_start]
        return sums

    def of_higher(self, values: Floats) -> Floats:
        """For each image (n,), the sum of `values` over its partners of higher grade."""
        sums = np.zeros(self.count)
        for one in self.rounds:
            running = _running(values[one.right])
            sums[one.left] += running[one.left_stop] - running[one.left_start]
        return sums


def _running(values: Floats) -> Floats:
    running = np.empty(len(values) + 1)
    running[0] = 0.0
    np.cumsum(values, out=running[1:])
    return running


def _ranges(left: Integers, right: Integers, block: Integers, scores: Floats, margin: float) -> _Ranges:
    """Partners by binary search: blocks are set one behind the other, too far apart to touch."""
    low, high = float(scores.min()), float(scores.max())
    apart = (high - low) + 2.0 * margin + 1.0
    keys = block * apart + (scores - low)
    left, right = left[np.argsort(keys[left])], right[np.argsort(keys[right])]
    left_keys, right_keys = keys[left], keys[right]
    left_blocks, right_blocks = block[left], block[right]
    return _Ranges(
        left,
        right,
        left_start=np.searchsorted(right_blocks, left_blocks, "left"),
        left_stop=np.searchsorted(right_keys, left_keys + margin, "left"),
        right_start=np.searchsorted(left_keys, right_keys - margin, "right"),
        right_stop=np.searchsorted(left_blocks, right_blocks, "right"),
    )
