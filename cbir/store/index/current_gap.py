"""The gap between an index and its collection, found again when the collection has changed."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Protocol

import numpy as np

from cbir.gallery.vector_blocks import Floats
from cbir.store.index.current_index import CurrentIndex, OpenedEdition
from cbir.store.index.index_gap import IndexGap, find_gap
from cbir.store.index.port import Numbers
from cbir.store.views.index_feed import IndexFeed, Version

OPEN_SECONDS = 2.0  # after which a gap is found again, since the index may have followed


class Gaps(Protocol):
    """Gap between an index and its collection, and vectors of samples."""

    def now(self) -> IndexGap:
        """Return the gap to read with; raises IndexUnavailable."""

    def latest(self) -> IndexGap:
        """Return the gap of the edition that answers now; raises IndexUnavailable."""

    def sample_vectors(
        self, gap: IndexGap, numbers: Numbers, read: Callable[[Numbers], tuple[Numbers, Floats]]
    ) -> tuple[Numbers, Floats]:
        """Return the vectors (n, d) of ascending numbers, from memory where an earlier sample had them."""


class CurrentGap:
    """The latest gap, and the vectors of samples. Thread-safe."""

    def __init__(self, feed: IndexFeed, current: CurrentIndex) -> None:
        self._feed, self._current = feed, current
        self._lock = Lock()
        self._gap: IndexGap | None = None
        self._found_at = 0.0
        self._sampled: tuple[OpenedEdition, Numbers, Floats] | None = None

    def now(self) -> IndexGap:
        """Return the gap of the current edition; raises IndexUnavailable."""
        edition, version = self._current.opened(), self._feed.version()
        gap = self._gap
        if gap and self._is_current(gap, edition, version):
            return gap
        with self._lock:
            gap = self._gap
            if gap is None or not self._is_current(gap, edition, version):
                gap = self._gap = find_gap(self._feed, edition, gap)
                self._found_at = time.monotonic()
            return gap

    latest = now

    def _is_current(self, gap: IndexGap, edition: OpenedEdition, version: Version) -> bool:
        followed = not gap.closed and time.monotonic() > self._found_at + OPEN_SECONDS
        return gap.edition is edition and gap.version == version and not followed

    def sample_vectors(
        self, gap: IndexGap, numbers: Numbers, read: Callable[[Numbers], tuple[Numbers, Floats]]
    ) -> tuple[Numbers, Floats]:
        """Return the vectors (n, d) of ascending numbers, from memory where an earlier sample had them.

        Parameters
        ----------
        gap : IndexGap
        numbers : (n,) int64
            Images that exist.
        read : callable
            Reads vectors that are not in memory.
        """
        before = self._sampled
        if before is None or before[0] is not gap.edition:
            before = (
                gap.edition,
                np.empty(0, np.int64),
                np.empty((0, gap.edition.statistics.dimensions), np.float32),
            )
        missing = np.setdiff1d(numbers, before[1], assume_unique=True)
        sample_numbers, vectors = before[1], before[2]
        if len(missing):
            read_numbers, read_vectors = read(missing)
            joined = np.concatenate([sample_numbers, read_numbers])
            order = np.argsort(joined)
            sample_numbers, vectors = joined[order], np.concatenate([vectors, read_vectors])[order]
        rows = np.flatnonzero(np.isin(sample_numbers, numbers))
        return self._remember(gap.edition, sample_numbers, vectors, rows)

    def _remember(
        self, edition: OpenedEdition, sample_numbers: Numbers, vectors: Floats, rows: Numbers
    ) -> tuple[Numbers, Floats]:
        numbers, row_vectors = sample_numbers[rows], vectors[rows]
        # Only what the latest sample had, so that deleted images do not stay in memory.
        self._sampled = edition, numbers, row_vectors
        return numbers, row_vectors


class GapOfSearch:
    """The gap as it is when a search begins: the database is asked once, and all of the search reads one state."""

    def __init__(self, gaps: Gaps) -> None:
        self._gaps, self._gap = gaps, gaps.now()
        self.sample_vectors = gaps.sample_vectors

    def now(self) -> IndexGap:
        """Return the gap of the beginning, or the one that replaced it."""
        return self._gap

    def latest(self) -> IndexGap:
        """Return the gap of the edition that answers now, which is then read on."""
        self._gap = self._gaps.latest()
        return self._gap
