"""Numbers of the images in a scope, from the collection, with those of recent scopes in memory; samples of numbers.

The random order of a sample is the same in every process and at every time.
"""

import time
from dataclasses import replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import AS_A_WHOLE
from cbir.store.index.port import IndexScope, Numbers
from cbir.store.views.index_feed import IndexFeed, Version, exclusions, scope_conditions

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


LEFT_OUT = 2000  # images up to which more are fetched from an index, in place of a filter in it

SCOPES_IN_MEMORY = 32  # scopes in memory

MANY_SECONDS = 60.0  # for which a scope with many images is taken to have many

COUNTED = 200_000  # images that are counted again at once, since that takes milliseconds

COUNT_SECONDS = 5.0  # between two counts of more

NEVER: Version = (-1, "")


class ScopeNumbers:
    """Reads the numbers of the images in scopes. Thread-safe."""

    def __init__(self, feed: IndexFeed) -> None:
        self._feed = feed
        self._lock = Lock()
        self._few: dict[IndexScope, tuple[Version, Numbers]] = {}
        self._many: dict[IndexScope, float] = {}  # until when
        self._drawn: dict[IndexScope, tuple[Version, int, Numbers]] = {}  # count, numbers
        self._counted: tuple[Version, int, float] = (NEVER, -1, 0.0)  # version, images, when
        self._order = RandomOrder()

    def total(self, version: Version) -> int:
        """Return the number of all images; a large one may be some seconds old."""
        counted, images, at = self._counted
        if counted != version and (images <= COUNTED or time.monotonic() > at + COUNT_SECONDS):
            images = len(self._feed)
            self._counted = version, images, time.monotonic()
        return images

    def all(self, scope: IndexScope) -> Numbers:
        """Return the numbers of all images in a scope, ascending."""
        return self._feed.matching(_conditions(scope))

    def among(self, numbers: Numbers, scope: IndexScope) -> Numbers:
        """Return those of the numbers whose images are in a scope, ascending."""
        return self._feed.matching(_conditions(scope), among=numbers)

    def few(self, scope: IndexScope, version: Version) -> Numbers | None:
        """Return the numbers of the images in a scope if labels or patients leave at most AS_A_WHOLE; else None."""
        if not scope.where and not scope.of_patients:
            return None
        narrow = IndexScope(where=scope.where, of_patients=scope.of_patients)
        numbers = self._few_of(narrow, version)
        return numbers if numbers is None or narrow == scope else self.among(numbers, scope)

    def _few_of(self, scope: IndexScope, version: Version) -> Numbers | None:
        with self._lock:
            cached_version, numbers = self._few.get(scope, (NEVER, None))
            if cached_version == version:
                return numbers
            if time.monotonic() < self._many.get(scope, 0.0):
                return None
        numbers = self._feed.matching(_conditions(scope), most=AS_A_WHOLE + 1)
        with self._lock:
            if len(numbers) > AS_A_WHOLE:
                self._many[scope] = time.monotonic() + MANY_SECONDS
                numbers = None
            else:
                self._few[scope] = version, numbers
            for cache in (self._few, self._many):
                while len(cache) > SCOPES_IN_MEMORY:
                    del cache[next(iter(cache))]
        return numbers

    def left_out(self, scope: IndexScope) -> tuple[Numbers, IndexScope]:
        """Return images that a scope leaves out, ascending, and the wider scope that leaves the others out.

        A part of the scope that leaves out many images stays in it.
        """
        numbers = np.empty(0, np.int64)
        for position, name in enumerate(("without_patients", "without_contents", "outside")):
            excluding = getattr(scope, name)
            if not excluding:
                continue
            condition = exclusions(**{name: excluding})[position]
            excluded = self._feed.matching([condition], most=LEFT_OUT + 1)
            if len(excluded) <= LEFT_OUT:
                numbers = np.union1d(numbers, excluded)
                scope = replace(scope, **{name: getattr(IndexScope(), name)})
        return numbers, scope

    def drawn(self, count: int, scope: IndexScope, version: Version, last_number: int) -> Numbers:
        """Return up to `count` random images of a scope, in the fixed random order.

        Parameters
        ----------
        count : int
        scope : IndexScope
        version : tuple of int and str
        last_number : int
            Of the collection.
        """
        few = self.few(scope, version)
        if few is not None:
            return lowest(few, count)
        left_out, wide = self.left_out(scope)
        with self._lock:
            cached_version, count_read, numbers = self._drawn.get(wide, (NEVER, 0, left_out[:0]))
        if cached_version != version or count_read < count + len(left_out):
            count_read = count + len(left_out)
            numbers = self._draw(count_read, wide, last_number)
            with self._lock:
                self._drawn[wide] = version, count_read, numbers
                while len(self._drawn) > SCOPES_IN_MEMORY:
                    del self._drawn[next(iter(self._drawn))]
        return numbers[~np.isin(numbers, left_out)][:count]

    def _draw(self, count: int, scope: IndexScope, last_number: int) -> Numbers:
        order = self._order.upto(last_number)
        size = count + count // 4 + 64
        for tried in (size, 4 * size):
            first = order[:tried]
            present = first[np.isin(first, self.among(first, scope))]
            if len(present) >= count:
                return present[:count]
            if tried >= len(order):
                break
        return lowest(self.all(scope), count)


def _conditions(scope: IndexScope) -> list:  # type: ignore[type-arg]  # of SQL, which this package does not import
    return scope_conditions(
        scope.where, scope.of_patients, scope.without_patients, scope.without_contents, scope.outside
    )
