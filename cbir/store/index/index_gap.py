"""Images that a vector index lacks, which searches compare apart."""

from dataclasses import dataclass, field

import numpy as np

from cbir.errors import IndexUnavailable
from cbir.gallery.vector_blocks import Floats
from cbir.store.index.current_index import NOT_BUILT, OpenedEdition
from cbir.store.index.port import IndexPosition, Numbers
from cbir.store.views.index_feed import FeedState, IndexFeed, Version

MOST_LACKING = (
    200_000  # images that an index may lack; more would take too much memory, and time in each search
)
MOST_CHANGED = 20_000  # images with other attributes than those in the index that are compared one by one


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
    changed = feed.changed(position.last_change, state.last_change, 0, MOST_CHANGED + 1)
    return None if len(changed) > MOST_CHANGED else changed
