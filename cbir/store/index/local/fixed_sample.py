"""Random order of image numbers that is the same in every process and at every time."""

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cbir.store.index.port import Numbers

POOL = 65_536  # numbers that come first, which are kept

_MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # of SplitMix64


def random_keys(numbers: Numbers) -> NDArray[np.uint64]:
    """Return a key for each number (n,), as if drawn at random, to sort by (SplitMix64, Steele et al. 2014)."""
    keys = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in _MIXERS:
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))


def lowest(numbers: Numbers, count: int) -> Numbers:
    """Return the `count` numbers that come first in the random order, in this order; all where there are fewer."""
    keys = random_keys(numbers)
    if count < len(numbers):
        first = np.argpartition(keys, count)[:count]
        numbers, keys = numbers[first], keys[first]
    return numbers[np.argsort(keys, kind="stable")]


class RandomOrder:
    """The first POOL of the numbers 1 to n in the random order; n only grows. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last, self._pool = 0, np.empty(0, np.int64)

    def upto(self, last: int) -> Numbers:
        """Return the first of the numbers 1 to `last`, or of more than these, in the random order."""
        with self._lock:
            for start in range(self._last, last, POOL * 16):
                stop = min(start + POOL * 16, last)
                self._pool = lowest(np.concatenate([self._pool, np.arange(start + 1, stop + 1)]), POOL)
                self._last = stop
            return self._pool
