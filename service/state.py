"""What the views of one app share: the settings, the gate, and the collection, opened when it can be."""

import logging
from pathlib import Path
from threading import Lock

import numpy as np
from flask import current_app

from cbir.collection import Collection
from cbir.collection.schema import DATABASE
from cbir.errors import CbirError
from cbir.images import Image
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from service.gate import Gate
from service.problems import NotReady, where

EXTENSION = "cbir"

log = logging.getLogger(__name__)

FileIdentity = tuple[int, int]  # device and inode


class State:
    """Thread-safe."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.gate = Gate(settings.threads, settings.queue)
        self._opening = Lock()
        self._opened: tuple[FileIdentity, Searcher] | None = None
        self._told: str | None = None

    def searcher(self) -> Searcher:
        """The collection's searcher; raises NotReady. A collection put in the place of another is opened anew."""
        file = self._file()
        opened = self._opened
        if opened and opened[0] == file:
            return opened[1]
        with self._opening:
            if self._opened and self._opened[0] == file:
                return self._opened[1]
            try:
                searcher = Searcher(Collection(self.folder), self.settings)
            except CbirError as error:
                raise NotReady(str(error)) from error
            if self._opened:
                self._opened[1].collection.close()
            self._opened = file, searcher
            return searcher

    def _file(self) -> FileIdentity:
        try:
            status = (self.folder / DATABASE).stat()
        except OSError as error:
            raise NotReady(f"there is no collection in {self.folder}: {error.strerror}") from error
        return status.st_dev, status.st_ino

    def snapshot_problem(self) -> str | None:
        """Why queries do without the snapshot, told to the log once; None where they do not."""
        found = self.searcher().collection.snapshot_problem
        if found and found != self._told:
            log.warning("searching without the snapshot: %s", found)
        self._told = found
        return found

    def warm_up(self) -> None:
        """Load the vectors and all code of a query, so that the first one does not wait for them."""
        ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
        try:
            self.searcher().by_image(Image(ramp), Request(k=1), Stopwatch())
            self.snapshot_problem()
        except CbirError as error:
            log.warning("not ready: %s", error)
        except Exception as error:
            log.warning("the first search failed: %s", where(error))


def state() -> State:
    """The state of the app that answers the present request."""
    found: State = current_app.extensions[EXTENSION]
    return found
