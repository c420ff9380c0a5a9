"""Handle of a collection that the service has mounted: opening, writing, health."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from cbir.errors import CbirError, CollectionBusy, NotFound
from cbir.search import Searcher
from cbir.settings import Settings
from cbir.store.recovery import open_or_fallback
from cbir.store.schema import DATABASE
from cbir.store.writer import Writer
from service.access.caller import current_rights
from service.collections.limited_searchers import LimitedSearchers
from service.http.problems import NotReady

WRITE_WAIT_SECONDS = 10  # a write waits for earlier writes of this service
RETRY_SECONDS = 10  # pause before a failed opening is tried again, unless the database file changes

log = logging.getLogger(__name__)

FileIdentity = tuple[int, int]  # device and inode
FileStates = tuple[tuple[int, int, int, int], ...]  # of each file: device, inode, mtime, size


class FailedOpening(NamedTuple):
    """An opening that failed. files: state of the files then. until: on the monotonic clock."""

    files: FileStates
    until: float
    message: str


class CollectionHandle:
    """One collection of the service, opened by the first request that needs it. Thread-safe."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.name = folder.name
        self.folder = folder
        self.settings = settings
        self._opening = Lock()
        self._writing = Lock()
        self._indexing = False
        self._opened: tuple[FileIdentity, Searcher] | None = None
        self._failed: FailedOpening | None = None
        self._logged_problem: str | None = None
        self._limited = LimitedSearchers()

    def searcher(self) -> Searcher:
        """Return a searcher of the images that the caller of the current request may see; raises NotReady."""
        rights = current_rights()
        if rights is None or not rights.allows_collection(self.name):
            raise NotFound("this caller may not use the collection")
        searcher = self.whole_searcher()
        return self._limited.get(searcher, rights.where) if rights.where else searcher

    def whole_searcher(self) -> Searcher:
        """Return the collection's searcher, opened again if the folder now holds another database.

        Raises NotReady if the collection cannot be opened. To detect damage all of it has to be read, so the error
        is repeated for RETRY_SECONDS unless the database file changes.
        """
        file = self._database_identity()
        opened = self._opened
        if opened and opened[0] == file:
            return opened[1]
        with self._opening:
            if self._opened and self._opened[0] == file:
                return self._opened[1]
            searcher = self._open()
            if self._opened:
                self._limited.clear()
                self._opened[1].collection.close()
            self._opened = file, searcher
            return searcher

    def _open(self) -> Searcher:
        files = self._file_states()
        failed = self._failed
        if failed and failed.files == files and time.monotonic() < failed.until:
            raise NotReady(failed.message)
        try:
            searcher = Searcher(open_or_fallback(self.folder), self.settings)
        except CbirError as error:
            self._failed = FailedOpening(files, time.monotonic() + RETRY_SECONDS, str(error))
            raise NotReady(str(error)) from error
        self._failed = None
        return searcher

    def _file_states(self) -> FileStates:
        """Return what changes when the database is written, but not when it is only opened."""
        states = []
        for name in (DATABASE, f"{DATABASE}-wal"):
            with suppress(OSError):
                status = (self.folder / name).stat()
                if status.st_size:
                    states.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(states)

    def _database_identity(self) -> FileIdentity:
        try:
            status = (self.folder / DATABASE).stat()
        except OSError as error:
            raise NotReady(f"there is no collection in {self.folder}: {error.strerror}") from error
        return status.st_dev, status.st_ino

    @contextmanager
    def writer(self, actor: str) -> Iterator[Writer]:
        """Wait for earlier writes and yield the collection's writer; raises CollectionBusy if others hold it.

        actor: recorded in the collection's history.
        """
        if self._indexing:
            raise CollectionBusy(f"a job is indexing into the collection {self.name}; wait for it to end")
        if not self._writing.acquire(timeout=WRITE_WAIT_SECONDS):
            raise CollectionBusy(f"other requests are writing to the collection {self.name}; try again later")
        try:
            with self.whole_searcher().collection.writer(actor) as writer:
                yield writer
        finally:
            self._writing.release()

    @contextmanager
    def indexing(self) -> Iterator[None]:
        """Block writes by requests of this service while a job writes."""
        with self._writing:
            self._indexing = True
            try:
                yield
            finally:
                self._indexing = False

    def snapshot_problem(self) -> str | None:
        """Return the damage that queries work around, logged once; None if there is none."""
        problem = self.whole_searcher().collection.snapshot_problem
        if problem and problem != self._logged_problem:
            log.warning("collection %s: %s", self.name, problem)
        self._logged_problem = problem
        return problem
