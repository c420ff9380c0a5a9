"""The edition of an index that answers, its gap, and its state.

It is opened once for all searches of a process and for what follows. The gap is the images that the index lacks,
which searches compare apart; it is found again when the collection has changed.
"""

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from cbir.errors import IndexUnavailable
from cbir.gallery.vector_blocks import AS_A_WHOLE, Floats
from cbir.store.base.normalisation import Statistics, read_statistics
from cbir.store.index.editions import EditionRecord, Editions, IndexEngine
from cbir.store.index.port import IndexPosition, Numbers, VectorIndex
from cbir.store.views.index_feed import FeedState, IndexFeed, Version

NOT_BUILT = "the vector index is not built yet; the service builds it, or `cbir collection build-index`"


@dataclass(frozen=True, eq=False)
class OpenedEdition:
    """An edition that is open. statistics: of the vectors in it, which normalise queries too."""

    name: str
    fingerprint: str
    statistics: Statistics
    index: VectorIndex

    def __post_init__(self) -> None:
        # Searches may still use an edition that another has replaced.
        weakref.finalize(self, self.index.close).atexit = False


class CurrentIndex:
    """Opens the current edition, and the next one once that has taken its place. Thread-safe."""

    def __init__(self, editions: Editions, engine: IndexEngine) -> None:
        self.editions, self.engine = editions, engine
        self._lock = Lock()
        self._version: object = None
        self._opened: OpenedEdition | None = None

    def opened(self) -> OpenedEdition:
        """Return the current edition; raises IndexUnavailable without one."""
        opened = self.find()
        if opened is None:
            raise IndexUnavailable(NOT_BUILT)
        return opened

    def find(self) -> OpenedEdition | None:
        """Return the current edition, None without one; raises IndexUnavailable if it cannot be opened."""
        version = self.editions.version()
        opened = self._opened
        if version == self._version:
            return opened
        with self._lock:
            record = self.editions.read()
            if self._opened is None or record.current != self._opened.name:
                self._opened = self._open(record)
            self._version = version
            return self._opened

    def replace(self, opened: OpenedEdition) -> None:
        """Use an edition that this process has filled, and that the record names."""
        with self._lock:
            self._opened, self._version = opened, self.editions.version()

    def _open(self, record: EditionRecord) -> OpenedEdition | None:
        if record.current is None:
            return None
        statistics = read_statistics(record.statistics)
        index = self.engine.open(record.current, statistics.dimensions)
        return OpenedEdition(record.current, record.fingerprint, statistics, index)


MOST_LACKING = (
    200_000  # images that an index may lack; more would take too much memory, and time in each search
)


@dataclass(frozen=True, eq=False)
class IndexGap:
    """Difference between an edition and a version of the collection.

    tail, vectors: numbers of images that it may lack, ascending, and their normalised vectors (n, d). changed: images
    that it may have other attributes of, ascending; None if there are too many to list. closed: it lacks nothing, and
    has nothing besides.
    """

    edition: OpenedEdition
    version: Version
    position: IndexPosition
    last_number: int
    tail: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    vectors: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))
    changed: Numbers | None = field(default_factory=lambda: np.empty(0, np.int64))
    closed: bool = False

    @property
    def apart(self) -> Numbers:
        """Numbers of images that are compared one by one and not by the index."""
        return self.tail if self.changed is None else np.union1d(self.tail, self.changed)


def find_gap(feed: IndexFeed, edition: OpenedEdition, before: IndexGap | None) -> IndexGap:
    """Return what an edition lacks now; raises IndexUnavailable if it lacks too much.

    Parameters
    ----------
    feed : IndexFeed
        Of the whole collection.
    edition : OpenedEdition
        The edition that answers.
    before : IndexGap, optional
        Earlier gap, whose vectors are used again.
    """
    state, position = feed.state(), edition.index.position()
    if position is None:
        raise IndexUnavailable(NOT_BUILT)
    if is_of_later_state(feed, position, state):
        raise IndexUnavailable(
            "the vector index is of a later state of the collection and is to be built again"
        )
    version = state.generation, state.name
    if position.generation == state.generation:
        return IndexGap(edition, version, position, state.last_number, closed=True)
    tail, vectors = _load_tail(feed, edition, position, state, before)
    changed = _changed(feed, position, state)
    return IndexGap(edition, version, position, state.last_number, tail, vectors, changed)


def is_of_later_state(feed: IndexFeed, position: IndexPosition, state: FeedState) -> bool:
    """Return whether a position is of a state that the collection, now in `state`, was restored to before."""
    return position.generation > state.generation or not feed.has_state(position.state)


def _load_tail(
    feed: IndexFeed,
    edition: OpenedEdition,
    position: IndexPosition,
    state: FeedState,
    before: IndexGap | None,
) -> tuple[Numbers, Floats]:
    lacking = feed.count_between(position.last_number, state.last_number)
    if lacking > MOST_LACKING:
        raise IndexUnavailable(
            f"the vector index lacks {lacking} images; it takes them over in the background"
        )
    tail, vectors = np.empty(0, np.int64), np.empty((0, edition.statistics.dimensions), np.float32)
    after = position.last_number
    if before and before.edition is edition and len(before.tail):
        later = before.tail > after
        tail, vectors = before.tail[later], before.vectors[later]
        after = max(after, before.last_number)
    pages = [(tail, vectors)]
    while True:
        numbers, raw = feed.vectors_after(after, state.last_number)
        if not len(numbers):
            return np.concatenate([page[0] for page in pages]), np.concatenate([page[1] for page in pages])
        pages.append((numbers, edition.statistics.normalise(raw)))
        after = int(numbers[-1])


def _changed(feed: IndexFeed, position: IndexPosition, state: FeedState) -> Numbers | None:
    if state.incomplete_change > position.last_change:
        return None
    if state.last_change <= position.last_change:
        return np.empty(0, np.int64)
    changed = feed.changed(position.last_change, state.last_change, 0, AS_A_WHOLE + 1)
    return None if len(changed) > AS_A_WHOLE else changed


OPEN_SECONDS = 2.0  # after which a gap is found again, since the index may have followed


ReadVectors = Callable[[Numbers], tuple[Numbers, Floats]]
SampleVectors = Callable[[IndexGap, Numbers, ReadVectors], tuple[Numbers, Floats]]


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

    def sample_vectors(self, gap: IndexGap, numbers: Numbers, read: ReadVectors) -> tuple[Numbers, Floats]:
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

    def __init__(self, gaps: "Gaps") -> None:
        self._gaps, self._gap = gaps, gaps.now()
        self.sample_vectors: SampleVectors = gaps.sample_vectors

    def now(self) -> IndexGap:
        """Return the gap of the beginning, or the one that replaced it."""
        return self._gap

    def latest(self) -> IndexGap:
        """Return the gap of the edition that answers now, which is then read on."""
        self._gap = self._gaps.latest()
        return self._gap


Gaps = CurrentGap | GapOfSearch  # between an index and its collection


@dataclass(frozen=True)
class IndexStatus:
    """State of an index.

    edition: that answers; None without one. images: in it. lacking: images of the collection with larger numbers than
    it has seen. behind: transactions of the collection that it has not followed. filled: images in the edition that
    is being filled, as far as they are stored; None if none is. problem: why it cannot answer; None if it can.
    linked: images of the stored graph of neighbours; None without one.
    """

    kind: str
    edition: str | None = None
    images: int | None = None
    lacking: int | None = None
    behind: int | None = None
    filled: int | None = None
    problem: str | None = None
    linked: int | None = None


def find_problem(current: CurrentIndex) -> str | None:
    """Return why an index cannot answer; None if it can."""
    try:
        opened = current.find()
        return NOT_BUILT if opened is None or opened.index.position() is None else None
    except IndexUnavailable as error:
        return str(error)


def read_status(kind: str, feed: IndexFeed, current: CurrentIndex) -> IndexStatus:
    """Return the state of an index, also while its engine does not answer.

    Parameters
    ----------
    kind : str
        Kind of the index.
    feed : IndexFeed
        Of the whole collection.
    current : CurrentIndex
        The index.
    """
    filling = current.editions.read().filling
    filled = None if filling is None else feed.count_between(0, filling.filled_to)
    try:
        opened = current.find()
        position = opened.index.position() if opened else None
        if opened is None or position is None:
            return IndexStatus(kind, filled=filled, problem=NOT_BUILT)
        state = feed.state()
        lacking = feed.count_between(position.last_number, state.last_number)
        behind = state.generation - position.generation
        return IndexStatus(kind, opened.name, len(opened.index), lacking, behind, filled)
    except IndexUnavailable as error:
        return IndexStatus(kind, filled=filled, problem=str(error))
