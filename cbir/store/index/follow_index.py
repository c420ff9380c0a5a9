"""Let the vector index of a collection follow it: at the end of a command, or in threads of a service."""

import logging
import math
import threading
import time
import weakref
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cbir.errors import CbirError, DatabaseUnavailable, IndexUnavailable, describe_unexpected
from cbir.settings import Settings
from cbir.system.console import StageBars, echo
from cbir.system.threads import locked, time_limit

if TYPE_CHECKING:
    from cbir.store.index.open_index import CollectionIndex
    from cbir.store.index.stored_neighbours import StoredNeighbours

RETRY_SECONDS = 3600.0  # after a build that failed: the next one reads all vectors again

log = logging.getLogger(__name__)

_building = threading.Lock()  # one graph at a time in a process: each needs memory and all cores


class Stopped(Exception):
    """The build ends, since nothing needs the graph any more."""


class NeighbourThread:
    """Builds the graph of one collection whenever that is due."""

    def __init__(self, name: str) -> None:
        self._name, self._stopped, self._next = name, False, 0.0
        self._thread: threading.Thread | None = None

    def update(self, neighbours: "StoredNeighbours") -> None:
        """Begin to build the graph if that is due, and return at once."""
        building = self._thread is not None and self._thread.is_alive()
        if building or time.monotonic() < self._next or not neighbours.is_due():
            return
        self._thread = threading.Thread(
            target=self._build, args=(neighbours,), name=f"neighbours of {self._name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Let a build end soon."""
        self._stopped = True

    def _build(self, neighbours: "StoredNeighbours") -> None:
        try:
            with time_limit(math.inf, self._require_running), locked(_building):
                neighbours.update()
        except Stopped:
            pass
        except Exception as error:  # searches go on without it
            reason = error if isinstance(error, CbirError) else describe_unexpected(error)
            if not self._stopped:  # else the collection was closed
                log.warning("collection %s: the graph of neighbours is not built: %s", self._name, reason)
            self._next = time.monotonic() + RETRY_SECONDS

    def _require_running(self) -> None:
        if self._stopped:
            raise Stopped


FOLLOW_SECONDS = 3.0  # between two looks at the collection

LONGEST_SECONDS = 60.0  # between two attempts while the index does not answer


class IndexThread:
    """Lets an index follow its collection for as long as there is the index; one for each open collection.

    problem: why the index cannot answer, as of the last attempt; None if it can.
    """

    def __init__(self, name: str, index: "CollectionIndex") -> None:
        self.problem: str | None = None
        self._name, self._seconds, self._followed, self._stopped = name, FOLLOW_SECONDS, False, False
        self._awake = threading.Event()
        self._neighbours = NeighbourThread(name)
        self._index = weakref.ref(index, lambda _: self._awake.set())
        self._thread = threading.Thread(target=self._run, name=f"index of {name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Follow at once, since this service has changed the collection."""
        self._awake.set()

    def stop(self) -> None:
        """End the thread, after what it is taking over."""
        self._stopped = True
        self._neighbours.stop()
        self._awake.set()
        self._thread.join()

    def _run(self) -> None:
        while (index := self._index()) and not self._stopped:
            self._follow(index)
            del index  # so that the thread does not keep it
            self._awake.wait(self._seconds)
            self._awake.clear()
        self._neighbours.stop()

    def _follow(self, index: "CollectionIndex") -> None:
        try:
            if not self._followed and self.problem is None:
                self._note(index.problem())
            index.follower.follow()
            self._note(index.problem())
            self._followed = True
            self._neighbours.update(index.neighbours)
            self._seconds = FOLLOW_SECONDS
            return
        except DatabaseUnavailable:  # others say so
            pass
        except CbirError as error:
            self._note(str(error))
        except Exception as error:  # the next attempt must come all the same
            self._note(f"the vector index cannot follow the collection: {describe_unexpected(error)}")
        self._seconds = min(2 * self._seconds, LONGEST_SECONDS)

    def _note(self, problem: str | None) -> None:
        """Note why the index cannot answer, None if it can; log it if that has changed."""
        if problem != self.problem:
            log.warning("collection %s: %s", self._name, problem or "the vector index answers")
        self.problem = problem


def follow_index(folder: Path, settings: Settings) -> None:
    """Bring the vector index that the settings name up to the collection; print why if it does not answer.

    A process that is doing so already, such as a service, goes on alone.
    """
    from cbir.store import Collection
    from cbir.store.index.open_index import open_index

    with Collection(folder) as collection:
        index = open_index(collection, settings)
        if index is None:
            return
        try:
            with StageBars() as bars:
                index.follower.follow(progress=partial(bars.show, "building the vector index"))
        except IndexUnavailable as error:
            echo(
                f"the vector index has not followed: {error}; a service follows when it answers again, or "
                "`cbir collection build-index`",
                err=True,
            )
            return
        try:
            with StageBars() as bars:
                index.neighbours.update(partial(bars.show, "reading vectors for the graph of neighbours"))
        except IndexUnavailable as error:
            echo(f"the graph of neighbours is not built: {error}", err=True)
