"""State of a collection's vector index: which edition answers, and what it lacks."""

from dataclasses import dataclass

from cbir.errors import IndexUnavailable
from cbir.store.index.current_index import NOT_BUILT, CurrentIndex
from cbir.store.views.index_feed import IndexFeed


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
