"""Thread that looks after a collection in PostgreSQL: asks whether its server answers, and renews its snapshot."""

import logging
import threading
import weakref
from typing import Protocol

from cbir.errors import CbirError, DatabaseUnavailable
from cbir.store import Collection
from service.http.problems import error_location

CHECK_SECONDS = 5.0

log = logging.getLogger(__name__)


class OpensCollection(Protocol):
    """The part of a collection's handle that a watcher uses."""

    name: str

    def open_collection(self) -> Collection | None:
        """Return the collection in use, without opening it."""


class DatabaseWatcher:
    """Watches the open collection of a handle, for as long as there is the handle.

    problem: why the server cannot be used, as of the last check or request; None if it can.
    """

    def __init__(self, handle: OpensCollection) -> None:
        self.problem: str | None = None
        self._name = handle.name
        self._handle = weakref.ref(handle, lambda _: self._ended.set())
        self._ended = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs; in the process that answers requests, after any fork."""
        with self._starting:
            if self._thread is None:
                name = f"database of {self._name}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def note(self, problem: str | None) -> None:
        """Note whether the server can be used; log it if that has changed."""
        if (problem is None) != (self.problem is None):
            log.warning("collection %s: %s", self._name, problem or "its database answers again")
        self.problem = problem

    def _run(self) -> None:
        while not self._ended.wait(CHECK_SECONDS):
            handle = self._handle()
            collection = handle.open_collection() if handle else None
            del handle  # so that the thread does not keep it
            if collection is not None:
                self._check(collection)

    def _check(self, collection: Collection) -> None:
        try:
            collection.generation()
            self.note(None)
            if collection.snapshot_is_due() and collection.build_due_snapshot():
                log.info("collection %s: the snapshot is renewed", self._name)
        except DatabaseUnavailable as error:
            self.note(str(error))
        except CbirError as error:
            log.warning("collection %s: the snapshot is not renewed: %s", self._name, error)
        except Exception as error:  # the next check must come all the same
            log.error("collection %s: the snapshot is not renewed: %s", self._name, error_location(error))
