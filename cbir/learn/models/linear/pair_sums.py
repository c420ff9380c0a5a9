"""Sums over pairs of differently graded images, without forming the pairs.

A pair (i, j) belongs to one list, with i graded higher than j. The levels of grades are numbered; the numbers of a
pair first differ in one binary digit, so that the pairs fall into log2(levels) rounds, each with "left" images (digit
0) and "right" images (digit 1). In a round, the partners of an image are a range of the other side sorted by score,
which binary search and running sums evaluate. (The same sums as the order-statistic trees of Lee & Lin 2014,
Large-scale linear rankSVM, in array operations.)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Pairs:
    """Pairs of different `grades` (n,) within `lists` (n,)."""

    def __init__(self, grades: Floats, lists: Integers) -> None:
        levels = np.unique(grades, return_inverse=True)[1]
        # left rows, right rows, block of every row
        self.rounds: list[tuple[Integers, Integers, Integers]] = []
        for digit in range(int(levels.max()).bit_length()):
            higher = levels >> (digit + 1)
            block = np.unique(lists * (int(higher.max()) + 1) + higher, return_inverse=True)[1]
            is_right = (levels >> digit) & 1 == 1
            self.rounds.append((np.flatnonzero(~is_right), np.flatnonzero(is_right), block))

    def within(self, scores: Floats, margin: float) -> "Within":
        """Return the pairs whose `scores` (n,) are in the wrong order, or in the right one by less than `margin`."""
        return Within(len(scores), [_partners(*rows, scores, margin) for rows in self.rounds])


class _Partners(NamedTuple):
    """Sorted rows of images, and of their partners, of which those of an image are [start, stop)."""

    rows: Integers
    partners: Integers
    start: Integers
    stop: Integers


class Within:
    """Sums over the partners of every image; `rounds` have the lower partners, then the higher."""

    def __init__(self, count: int, rounds: list[tuple[_Partners, _Partners]]) -> None:
        self.count, self.rounds = count, rounds

    def of_lower(self, values: Floats) -> Floats:
        """Return for each image (n,) the sum of `values` (n,) over its partners of lower grade."""
        return self._sums(values, 0)

    def of_higher(self, values: Floats) -> Floats:
        """Return for each image (n,) the sum of `values` (n,) over its partners of higher grade."""
        return self._sums(values, 1)

    def _sums(self, values: Floats, side: int) -> Floats:
        sums = np.zeros(self.count)
        for rows, partners, start, stop in (sides[side] for sides in self.rounds):
            running = np.concatenate([[0.0], np.cumsum(values[partners])])
            sums[rows] += running[stop] - running[start]
        return sums


def _partners(
    left: Integers, right: Integers, block: Integers, scores: Floats, margin: float
) -> tuple[_Partners, _Partners]:
    """Find partners by binary search, with the blocks one behind the other, too far apart to overlap."""
    low, high = float(scores.min()), float(scores.max())
    distance = (high - low) + 2.0 * margin + 1.0
    keys = block * distance + (scores - low)
    left, right = left[np.argsort(keys[left])], right[np.argsort(keys[right])]
    left_keys, right_keys = keys[left], keys[right]
    left_blocks, right_blocks = block[left], block[right]
    start = np.searchsorted(left_keys, right_keys - margin, "right")
    lower = _Partners(right, left, start, np.searchsorted(left_blocks, right_blocks, "right"))
    stop = np.searchsorted(right_keys, left_keys + margin)
    return lower, _Partners(left, right, np.searchsorted(right_blocks, left_blocks), stop)
