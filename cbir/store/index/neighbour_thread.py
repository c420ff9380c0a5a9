"""Thread that builds the k-NN graph of a collection behind an index, while the index goes on to follow."""

import logging
import math
import threading
import time
from typing import TYPE_CHECKING

from cbir.errors import CbirError, describe_unexpected
from cbir.system.cancellation import locked, time_limit

if TYPE_CHECKING:
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
