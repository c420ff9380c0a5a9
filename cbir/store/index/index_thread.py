"""Thread in which the vector index of a collection follows it."""

import logging
import threading
import weakref
from typing import TYPE_CHECKING

from cbir.errors import CbirError, DatabaseUnavailable, describe_unexpected
from cbir.store.index.neighbour_thread import NeighbourThread

if TYPE_CHECKING:
    from cbir.store.index.open_index import CollectionIndex

FOLLOW_SECONDS = 3.0  # between two looks at the collection
LONGEST_SECONDS = 60.0  # between two attempts while the index does not answer

log = logging.getLogger(__name__)


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
