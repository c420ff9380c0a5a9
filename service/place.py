"""A folder with a collection that the service answers for, and what is open of it."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from cbir.errors import CbirError, CollectionBusy
from cbir.search import Searcher
from cbir.settings import Settings
from cbir.store.opening import open_sound
from cbir.store.schema import DATABASE
from cbir.store.writer import Writer
from service.problems import NotReady

TURN_SECONDS = 10  # a write waits for those before it, of this service
FAILED_SECONDS = (
    10  # a collection that could not be opened is not tried again before, unless its file changes
)

log = logging.getLogger(__name__)

FileIdentity = tuple[int, int]  # device and inode
Contents = tuple[tuple[int, int, int, int], ...]  # of each file: device, inode, time of change, size


class Failure(NamedTuple):
    """An opening that failed. contents: of the files then. until: on the monotonic clock."""

    contents: Contents
    until: float
    said: str


class Place:
    """One collection, opened when a request needs it. Thread-safe."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.name = folder.name
        self.folder = folder
        self.settings = settings
        self._opening = Lock()
        self._writing = Lock()
        self._indexing = False
        self._opened: tuple[FileIdentity, Searcher] | None = None
        self._failed: Failure | None = None
        self._told: str | None = None

    def searcher(self) -> Searcher:
        """The collection's searcher; raises NotReady. A collection put in the place of another is opened anew.

        To find that a collection is damaged takes reading all of it: that is said again for a while, and only looked
        at anew once its file has changed.
        """
        file = self._file()
        opened = self._opened
        if opened and opened[0] == file:
            return opened[1]
        with self._opening:
            if self._opened and self._opened[0] == file:
                return self._opened[1]
            searcher = self._open()
            if self._opened:
                self._opened[1].collection.close()
            self._opened = file, searcher
            return searcher

    def _open(self) -> Searcher:
        contents = self._contents()
        failed = self._failed
        if failed and failed.contents == contents and time.monotonic() < failed.until:
            raise NotReady(failed.said)
        try:
            searcher = Searcher(open_sound(self.folder), self.settings)
        except CbirError as error:
            self._failed = Failure(contents, time.monotonic() + FAILED_SECONDS, str(error))
            raise NotReady(str(error)) from error
        self._failed = None
        return searcher

    def _contents(self) -> Contents:
        """What changes when the database does, and not when somebody merely opens it."""
        found = []
        for name in (DATABASE, f"{DATABASE}-wal"):
            with suppress(OSError):
                status = (self.folder / name).stat()
                if status.st_size:
                    found.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)

    def _file(self) -> FileIdentity:
        try:
            status = (self.folder / DATABASE).stat()
        except OSError as error:
            raise NotReady(f"there is no collection in {self.folder}: {error.strerror}") from error
        return status.st_dev, status.st_ino

    @contextmanager
    def writer(self, who: str) -> Iterator[Writer]:
        """The writing side, once the writes before it are done; raises CollectionBusy where others hold it."""
        if self._indexing:
            raise CollectionBusy(f"a job is indexing into the collection {self.name}; wait for it to end")
        if not self._writing.acquire(timeout=TURN_SECONDS):
            raise CollectionBusy(f"other requests are writing to the collection {self.name}; try again later")
        try:
            with self.searcher().collection.writer(who) as writer:
                yield writer
        finally:
            self._writing.release()

    @contextmanager
    def indexing(self) -> Iterator[None]:
        """Keep the requests of this service from writing while a job does."""
        with self._writing:
            self._indexing = True
            try:
                yield
            finally:
                self._indexing = False

    def snapshot_problem(self) -> str | None:
        """Damage that queries get around, told to the log once; None where there is none."""
        found = self.searcher().collection.snapshot_problem
        if found and found != self._told:
            log.warning("not all is well: %s", found)
        self._told = found
        return found
