"""Brings a vector index up to its collection: fills the next edition, and takes over changes."""

import time
from collections.abc import Callable
from threading import Lock

import numpy as np

from cbir.store.base.normalisation import Statistics
from cbir.store.index.current_index import CurrentIndex, OpenedEdition, is_of_later_state
from cbir.store.index.editions import EditionRecord, NextEdition
from cbir.store.index.port import IndexedImage, IndexPosition, Numbers, VectorIndex
from cbir.store.records.records import Record
from cbir.store.views.index_feed import PAGE, FeedState, IndexFeed, Version, pages_of

Progress = Callable[[int, int], None]  # images done, and in all

FOLLOW_SECONDS = 5.0  # between two times that the present edition follows while the next one is filled
SAVED_SECONDS = 10.0  # between two times that the progress of a fill is stored


class Follower:
    """Follows one collection with its index; calls can be repeated and interrupted at any moment. Thread-safe.

    Parameters
    ----------
    feed : IndexFeed
        Of the whole collection.
    current : CurrentIndex
        The index, which searches of this process share.
    """

    def __init__(self, feed: IndexFeed, current: CurrentIndex) -> None:
        self._feed, self._current = feed, current
        self._lock = Lock()
        self._counted = False
        self._done: tuple[Version, object, OpenedEdition, IndexPosition] | None = None
        self._deleted: tuple[str, Numbers] = ("", np.empty(0, np.int64))  # edition, and what it has deleted

    def follow(self, rebuild: bool = False, progress: Progress | None = None) -> bool:
        """Bring the index up to the collection; return False if another process is doing so.

        Raises IndexUnavailable while the engine does not answer.

        Parameters
        ----------
        rebuild : bool
            Fill a new edition even if the present one can follow.
        progress : callable, optional
            Called with the number of images in the edition that is filled, and of all.
        """
        if not rebuild and self._has_followed():
            return True
        with self._lock, self._current.editions.lock() as locked:
            if locked:
                self._follow_editions(rebuild, progress)
                self._note_done()
            return locked

    def drop(self) -> bool:
        """Delete all editions; return False, without doing so, if another process is following."""
        with self._lock, self._current.editions.lock() as locked:
            if locked:
                self._retire(EditionRecord(), self._current.editions.read())
            return locked

    def _has_followed(self) -> bool:
        """Return whether nothing has changed since this process has followed; asks as little as possible."""
        if self._done is None:
            return False
        version, editions, opened, position = self._done
        return (
            self._feed.version() == version
            and self._current.editions.version() == editions
            and opened.index.position() == position
        )

    def _note_done(self) -> None:
        """Note what the index has followed to, unless the collection has changed meanwhile."""
        version, editions, opened = (
            self._feed.version(),
            self._current.editions.version(),
            self._current.find(),
        )
        position = opened.index.position() if opened else None
        done = opened and position and (position.generation, position.state) == version and self._counted
        self._done = (version, editions, opened, position) if done and opened and position else None

    def _follow_editions(self, rebuild: bool, progress: Progress | None) -> None:
        record = self._drop_retired(self._current.editions.read())
        state = self._feed.state()
        if state.fingerprint is None:  # an empty collection, or one whose first indexing run has not ended
            if record.current or record.filling:
                self._retire(EditionRecord(), record)
            return
        opened = self._current.find()
        caught_up = opened is not None and self._catch_up(opened)
        if rebuild or not caught_up or record.fingerprint != state.fingerprint:
            self._fill(record, None if rebuild else record.filling, opened if caught_up else None, progress)
        elif record.filling:  # an interrupted rebuild, which nothing needs
            dropped = (*record.dropped, record.filling.name)
            record = record.model_copy(update={"filling": None, "dropped": dropped})
            self._current.editions.write(record)
            self._drop_retired(record)

    def _catch_up(self, opened: OpenedEdition) -> bool:
        """Take over what has changed since the edition's position; False if only a new edition can be right."""
        index, position, state = opened.index, opened.index.position(), self._feed.state()
        if position is None or is_of_later_state(self._feed, position, state):
            return False
        if position.generation == state.generation:
            return self._has_all(index, state)
        self._delete(opened, position)
        self._add(index, opened.statistics, position.last_number, state.last_number)
        self._renew(index, opened.statistics, position, state)
        last_number = max(position.last_number, state.last_number)
        if state.purged_generation > position.generation and not self._delete_unlisted(index, last_number):
            return False
        last_change = max(position.last_change, state.last_change)
        index.set_position(IndexPosition(state.generation, last_number, last_change, state.name))
        return True

    def _has_all(self, index: VectorIndex, state: FeedState) -> bool:
        """Return False if the index has more or fewer images than the collection; counts once in a process."""
        if self._counted:
            return True
        same = len(index) == self._feed.count_between(0, state.last_number)
        self._counted = self._feed.generation() == state.generation  # else they may differ for a change since
        return same or not self._counted

    def _delete(self, opened: OpenedEdition, position: IndexPosition) -> None:
        """Delete what the collection has deleted, apart from what this process has deleted before."""
        edition, before = self._deleted
        deleted = self._feed.deleted(position.generation)
        new = np.setdiff1d(deleted, before) if edition == opened.name else np.unique(deleted)
        for page in pages_of(new):
            opened.index.delete(page)
        self._deleted = opened.name, deleted

    def _add(self, index: VectorIndex, statistics: Statistics, after: int, upto: int) -> None:
        while after < upto:
            records, numbers, raw = self._feed.added(after, upto)
            if not len(numbers):
                return
            put_images(index, statistics, records, numbers, raw)
            after = int(numbers[-1])

    def _renew(
        self, index: VectorIndex, statistics: Statistics, position: IndexPosition, state: FeedState
    ) -> None:
        """Put images again whose attributes have changed; all of them if the history no longer names them."""
        if state.incomplete_change > position.last_change:
            self._add(index, statistics, 0, position.last_number)
            return
        since = 0
        while state.last_change > position.last_change:
            changed = self._feed.changed(position.last_change, state.last_change, since, PAGE)
            if not len(changed):
                return
            numbers, raw = self._feed.vectors(changed)
            put_images(index, statistics, self._feed.records(numbers.tolist()), numbers, raw)
            since = int(changed[-1])

    def _delete_unlisted(self, index: VectorIndex, last_number: int) -> bool:
        """Delete images that the collection no longer lists as deleted; False if the index lacks some."""
        if len(index) == self._feed.count_between(0, last_number):
            return True
        for after in range(0, last_number, PAGE):
            upto = min(after + PAGE, last_number)
            absent = np.setdiff1d(np.arange(after + 1, upto + 1), self._feed.numbers_between(after, upto))
            if len(absent):
                index.delete(absent)
        return len(index) >= self._feed.count_between(0, last_number)

    # Editions

    def _fill(
        self, record: EditionRecord, started: NextEdition | None, present: OpenedEdition | None,
        progress: Progress | None, once_more: bool = True,
    ) -> None:  # fmt: skip
        """Fill the next edition, while the present one follows and answers, and switch to it.

        `started`: an interrupted fill, which goes on where the engine has kept it and the statistics are the same.
        `once_more`: fill another edition if this one has more or fewer images than the collection.
        """
        engine, state = self._current.engine, self._feed.state()
        stored_fingerprint, statistics = self._feed.statistics()
        if not (
            started
            and engine.durable
            and started.fingerprint == stored_fingerprint
            and self._feed.has_state(started.state)
        ):
            abandoned = (record.filling.name,) if record.filling else ()
            started = NextEdition(
                name=record.next_name(),
                fingerprint=stored_fingerprint,
                generation=state.generation,
                last_change=state.last_change,
                state=state.name,
            )
            record = record.model_copy(update={"filling": started, "dropped": (*record.dropped, *abandoned)})
            self._current.editions.write(record)
            record = self._drop_retired(record)
        index = engine.open(started.name, statistics.dimensions)
        filled = self._fill_pages(record, started, index, statistics, present, progress)
        index.finish()
        index.set_position(IndexPosition(started.generation, filled, started.last_change, started.state))
        opened = OpenedEdition(started.name, stored_fingerprint, statistics, index)
        self._counted = False  # its server may have lost images, or have stored some twice
        if not self._catch_up(opened) and once_more:
            self._fill(record, None, present, progress, once_more=False)
            return
        self._retire(
            EditionRecord(
                current=started.name, fingerprint=stored_fingerprint, statistics=statistics.to_json()
            ),
            record,
            opened,
        )

    def _fill_pages(
        self, record: EditionRecord, started: NextEdition, index: VectorIndex, statistics: Statistics,
        present: OpenedEdition | None, progress: Progress | None,
    ) -> int:  # fmt: skip
        """Put all images; return the largest number."""
        total, done, filled = (
            len(self._feed),
            self._feed.count_between(0, started.filled_to),
            started.filled_to,
        )
        followed = saved = time.monotonic()
        while True:
            records, numbers, raw = self._feed.added(filled, np.iinfo(np.int64).max)
            if not len(numbers):
                return filled
            put_images(index, statistics, records, numbers, raw)
            filled, done, now = int(numbers[-1]), done + len(numbers), time.monotonic()
            if progress:
                progress(done, max(total, done))
            if present and now > followed + FOLLOW_SECONDS:
                self._catch_up(present)
                followed = time.monotonic()
            if self._current.engine.durable and now > saved + SAVED_SECONDS:
                progressed = started.model_copy(update={"filled_to": filled})
                self._current.editions.write(record.model_copy(update={"filling": progressed}))
                saved = now

    def _retire(
        self, record: EditionRecord, before: EditionRecord, opened: OpenedEdition | None = None
    ) -> None:
        """Switch from one record to another in one step, then delete the editions that it no longer names."""
        names = {name for name in (before.current, before.filling and before.filling.name) if name}
        dropped = (*before.dropped, *sorted(names - {record.current}))
        record = record.model_copy(update={"dropped": dropped})
        self._current.editions.write(record)
        if opened:
            self._current.replace(opened)
        self._drop_retired(record)

    def _drop_retired(self, record: EditionRecord) -> EditionRecord:
        """Delete editions that are out of use; return the record without them."""
        engine = self._current.engine
        for name in record.dropped:
            engine.drop(name)
        if record.dropped:
            record = record.model_copy(update={"dropped": ()})
            self._current.editions.write(record)
        engine.drop_others(
            {name for name in (record.current, record.filling and record.filling.name) if name}
        )
        return record


def put_images(
    index: VectorIndex, statistics: Statistics, records: dict[int, Record], numbers: Numbers, raw: np.ndarray
) -> None:
    """Put images into an index.

    Parameters
    ----------
    index : VectorIndex
    statistics : Statistics
        Normalise the vectors.
    records : dict of int to Record
        By number; images without one have been deleted meanwhile.
    numbers : (n,) int64
        Image numbers, ascending.
    raw : (n, d) float32
        Their raw vectors.
    """
    remaining = np.array([number in records for number in numbers.tolist()], bool)
    images = [indexed_image(number, records[number]) for number in numbers[remaining].tolist()]
    if images:
        index.put(images, statistics.normalise(raw[remaining]))


def indexed_image(number: int, record: Record) -> IndexedImage:
    """Return what an index stores of an image."""
    return IndexedImage(
        number,
        record.content_hash,
        record.patient_key or "",
        record.study,
        record.series,
        record.instance,
        record.labels,
    )
