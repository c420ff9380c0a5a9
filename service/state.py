"""What the views of one app share: the settings, the gate, and the collections, opened when they can be."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np
from flask import current_app

from cbir.collection.opening import open_sound
from cbir.collection.schema import DATABASE
from cbir.collection.writer import Writer
from cbir.errors import CbirError, CollectionBusy, InvalidInput, NotFound
from cbir.images import Image
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from service.cache import Cache
from service.gate import Gate
from service.jobs import Jobs
from service.problems import NotReady, where

EXTENSION = "cbir"
TURN_SECONDS = 10  # a write waits for those before it, of this service
CACHE_BYTES = 64 * 2**20

log = logging.getLogger(__name__)

FileIdentity = tuple[int, int]  # device and inode


class Place:
    """A folder with a collection, and what is open of it. Thread-safe."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.name = folder.name
        self.folder = folder
        self.settings = settings
        self._opening = Lock()
        self._writing = Lock()
        self._indexing = False
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
                searcher = Searcher(open_sound(self.folder), self.settings)
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


class State:
    """Thread-safe. places: the collections by name; the first one is meant where none is named."""

    def __init__(self, folders: Sequence[Path], settings: Settings) -> None:
        self.settings = settings
        self.gate = Gate(settings.threads, settings.queue)
        self.thumbnails = Cache(CACHE_BYTES)
        check_names(folders)
        self.places = {folder.name: Place(folder, settings) for folder in folders}
        self.default = next(iter(self.places))
        self.jobs = Jobs()

    def place(self, name: str | None = None) -> Place:
        """The collection of that name; raises NotFound."""
        found = self.places.get(name or self.default)
        if found is None:
            raise NotFound(f"there is no collection {name}; there are: {', '.join(self.places)}")
        return found

    def searcher(self, name: str | None = None) -> Searcher:
        """The searcher of a collection; raises NotFound and NotReady."""
        return self.place(name).searcher()

    def snapshot_problem(self) -> str | None:
        """Damage of the first collection that queries get around; None where there is none."""
        return self.place().snapshot_problem()

    def warm_up(self) -> None:
        """Load the vectors and all code of a query, so that the first one does not wait for them."""
        ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
        for place in self.places.values():
            try:
                place.searcher().by_image(Image(ramp), Request(k=1), Stopwatch())
                place.snapshot_problem()
            except CbirError as error:
                log.warning("not ready: %s", error)
            except Exception as error:
                log.warning("the first search failed: %s", where(error))


def check_names(folders: Sequence[Path]) -> None:
    """Raise InvalidInput where two folders have the same name, which is what requests call them by."""
    names = [folder.name for folder in folders]
    if double := {name for name in names if names.count(name) > 1}:
        raise InvalidInput(f"two collections have the folder name {min(double)}; requests call them by it")


def state() -> State:
    """The state of the app that answers the present request."""
    found: State = current_app.extensions[EXTENSION]
    return found
