"""Handle of a collection that the service has mounted: opening, writing, health, and the parts that callers see."""

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from flask import g, has_request_context

from cbir.errors import (
    AccessDenied,
    CbirError,
    CollectionBusy,
    DatabaseUnavailable,
    NotFound,
    raise_when_denied,
)
from cbir.evaluation.auto_choice import ChoiceUpdater
from cbir.search import Searcher
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base.schema import COPY, DATABASE
from cbir.store.collection_address import is_alias, public_name, resolve_alias
from cbir.store.index.current_index import IndexStatus
from cbir.store.index.follow_index import IndexThread
from cbir.store.index.open_index import CollectionIndex, open_index
from cbir.store.limited_collection import LimitedCollection
from cbir.store.postgresql.postgresql_address import NAME as DATABASE_FILE
from cbir.store.postgresql.postgresql_address import is_in_postgresql
from cbir.store.records.filter_conditions import parse_filter
from cbir.store.upkeep.restore import open_or_fallback
from cbir.store.writing.writer import Writer
from service.access.caller import current_rights
from service.collections.database_watcher import DatabaseWatcher
from service.http.problems import NotAccessible, NotReady

MAX_FILTERS = 32  # each holds the rows that it matches


class LimitedSearchers:
    """Searchers of the last label filters used with a collection. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._searchers: OrderedDict[tuple[str, ...], tuple[Searcher, Searcher]] = OrderedDict()

    def get(self, whole: Searcher, where: tuple[str, ...]) -> Searcher:
        """Return a searcher of the images of `whole` for which the conditions `where` hold."""
        with self._lock:
            of, limited = self._searchers.pop(where, (None, None))
            if of is not whole or limited is None:
                conditions = [parse_filter(text) for text in where]
                limited = whole.over(LimitedCollection(whole.collection, conditions))
                limited.collection.close_when_unused()
            self._searchers[where] = whole, limited
            if len(self._searchers) > MAX_FILTERS:
                self._searchers.popitem(last=False)
            return limited

    def clear(self) -> None:
        """Drop all of them, since the collection is opened again."""
        with self._lock:
            self._searchers.clear()


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


class OpenedCollection(NamedTuple):
    """An open collection. file: identity of its database when it was opened."""

    folder: Path
    file: FileIdentity
    searcher: Searcher
    vector_index: CollectionIndex | None = None  # the vector index that the settings name


class CollectionHandle:
    """One collection of the service, opened by the first request that needs it. Thread-safe.

    Parameters
    ----------
    path : Path
        Its folder, or an alias, which may be switched to another folder at any time.
    settings : Settings
        Settings of the service.
    on_replaced : callable
        Called with the folder of a collection that this handle no longer uses.
    """

    def __init__(
        self, path: Path, settings: Settings, on_replaced: Callable[[Path], None] = lambda folder: None
    ) -> None:
        self.name = public_name(path)
        self.path = path
        self.settings = settings
        self._on_replaced = on_replaced
        self._opening = Lock()
        self._writing: dict[Path, Lock] = {}  # by folder: a job may still index the one before a switch
        self._indexing: set[Path] = set()
        self._opened: OpenedCollection | None = None
        self._failed: FailedOpening | None = None
        self._switch_problem: str | None = None
        self._logged_problem: str | None = None
        self._limited = LimitedSearchers()
        self.choices = ChoiceUpdater()
        self._watcher = DatabaseWatcher(self)
        self._index_thread: IndexThread | None = None

    @property
    def folder(self) -> Path:
        """Folder of the collection; of an alias the one in use, which is opened: raises NotReady if it cannot be."""
        if not self.is_alias:
            return self.path
        return self._opened_for_request().folder

    @property
    def is_alias(self) -> bool:
        """True if the folder can be switched."""
        return is_alias(self.path)

    def searcher(self) -> Searcher:
        """Return a searcher of the images that the caller of the current request may see; raises NotReady."""
        rights = current_rights()
        if rights is None or not rights.allows_collection(self.name):
            raise NotFound("this caller may not use the collection")
        searcher = self.whole_searcher()
        return self._limited.get(searcher, rights.where) if rights.where else searcher

    def whole_searcher(self) -> Searcher:
        """Return the collection's searcher: a request has the same one from its first call to its end.

        So what it describes fits what it searches and writes to, even if the alias is switched meanwhile. Raises
        NotReady if the collection cannot be opened, DatabaseUnavailable if its server does not answer.
        """
        return self._opened_for_request().searcher

    @property
    def database_problem(self) -> str | None:
        """Why the database server of a collection in PostgreSQL cannot be used; None if it can."""
        return self._watcher.problem

    @property
    def index_problem(self) -> str | None:
        """Why the vector index of the collection in use cannot answer; None if it can, or if there is none."""
        return self._index_thread.problem if self._index_thread else None

    @property
    def is_indexed(self) -> bool:
        """True if a vector index stands for the vectors of the collection, which are not to be loaded then."""
        return self._opened_for_request().vector_index is not None

    def index_status(self) -> IndexStatus | None:
        """Return the state of the vector index; None if the settings name none. Asks its engine."""
        index = self._opened_for_request().vector_index
        return index.status() if index else None

    def index_answers(self) -> bool:
        """Return whether searches need not load all vectors because the vector index is down; True without one."""
        index = self._opened_for_request().vector_index
        return index is None or index.problem() is None

    def image_count(self) -> int:
        """Return the number of images that searches see; without an index it loads all vectors."""
        opened = self._opened_for_request()
        if opened.vector_index is not None:
            return len(opened.vector_index.vectors)
        return len(opened.searcher.collection.view())

    def loads_all(self) -> bool:
        """Return whether features that read all vectors may: not with an index, of more than `exact_limit` images."""
        return not self.is_indexed or self.image_count() <= self.settings.exact_limit

    def open_collection(self) -> Collection | None:
        """Return the collection in use, without opening it."""
        opened = self._opened
        return opened.searcher.collection if opened else None

    def _opened_for_request(self) -> OpenedCollection:
        if not has_request_context():
            return self._current()
        opened: dict[str, OpenedCollection] = g.setdefault("opened_collections", {})
        if self.name not in opened:
            opened[self.name] = self._current()
        return opened[self.name]

    def _current(self) -> OpenedCollection:
        """Return the collection in use, opened again if the folder now holds another database.

        When an alias was switched, the first request opens the other collection; those that come meanwhile are
        answered from the one before, as are all if the other cannot be opened.

        Raises NotReady if the collection cannot be opened. To detect damage all of it has to be read, so the error
        is repeated for RETRY_SECONDS unless the database file changes.
        """
        opened = self._opened
        try:
            with raise_when_denied(self.path):
                folder = resolve_alias(self.path)
                file = _database_identity(folder)
        except CbirError as error:
            return self._keep(opened, error)
        if opened and (opened.folder, opened.file) == (folder, file):
            self._switch_problem = None
            return opened
        switched = opened is not None and opened.folder != folder
        if not self._opening.acquire(blocking=not switched):
            assert opened is not None
            return opened
        try:
            return self._replace(folder, file)
        except NotReady as error:
            return self._keep(opened if switched else None, error)
        finally:
            self._opening.release()

    def _replace(self, folder: Path, file: FileIdentity) -> OpenedCollection:
        """Open the collection in `folder`, and use it from now on."""
        before = self._opened
        if before and (before.folder, before.file) == (folder, file):
            return before
        opened = self._open(folder, file)
        self._limited.clear()
        self._opened = opened
        self._switch_problem = None
        if before:
            self._on_replaced(before.folder)
            if before.folder != folder:
                log.warning("collection %s is now in %s", self.name, folder)
        return opened

    def _keep(self, opened: OpenedCollection | None, error: CbirError) -> OpenedCollection:
        """Return the collection in use, since the alias leads to none; raises NotReady without one."""
        if opened is None or not self.is_alias:
            raise _not_ready(error) from error
        reason = str(error).replace(f"{self.path.parent}{os.sep}", "")
        self._switch_problem = f"the alias cannot be followed, {opened.folder.name} stays in use: {reason}"
        return opened

    def _open(self, folder: Path, file: FileIdentity) -> OpenedCollection:
        files = _file_states(folder)
        failed = self._failed
        if failed and failed.files == files and time.monotonic() < failed.until:
            raise NotReady(failed.message)
        try:
            collection = open_or_fallback(folder)
            collection.close_when_unused()
            index = open_index(collection, self.settings)
            if self._opened and index is None:
                collection.view()  # before it replaces one that works
            searcher = Searcher(collection, self.settings, index.vectors if index else None)
        except DatabaseUnavailable as error:
            self._watcher.note(str(error))
            raise
        except AccessDenied as error:  # soon found again, and over when the right is given
            raise _not_ready(error) from error
        except CbirError as error:
            self._failed = FailedOpening(files, time.monotonic() + RETRY_SECONDS, str(error))
            raise NotReady(str(error)) from error
        self._failed = None
        if is_in_postgresql(folder):
            self._watcher.note(None)
            self._watcher.start()
        self._index_thread = IndexThread(self.name, index) if index else None
        return OpenedCollection(folder, file, searcher, index)

    @contextmanager
    def writer(self, actor: str) -> Iterator[Writer]:
        """Wait for earlier writes and yield the collection's writer; raises CollectionBusy if others hold it.

        actor: recorded in the collection's history.
        """
        opened = self._opened_for_request()
        if opened.folder in self._indexing:
            raise CollectionBusy(f"a job is indexing into the collection {self.name}; wait for it to end")
        writing = self._writing.setdefault(opened.folder, Lock())
        if not writing.acquire(timeout=WRITE_WAIT_SECONDS):
            raise CollectionBusy(f"other requests are writing to the collection {self.name}; try again later")
        try:
            with opened.searcher.collection.writer(actor) as writer:
                yield writer
        finally:
            writing.release()
            self._wake_index()

    @contextmanager
    def indexing(self, folder: Path, *, wait: bool = True) -> Iterator[None]:
        """Block writes to `folder` by requests of this service while a job writes to it.

        wait: for earlier writes to end; else CollectionBusy is raised.
        """
        writing = self._writing.setdefault(folder, Lock())
        if not writing.acquire(blocking=wait):
            raise CollectionBusy(f"other requests are writing to the collection {self.name}; try again later")
        self._indexing.add(folder)
        try:
            yield
        finally:
            self._indexing.remove(folder)
            writing.release()
            self._wake_index()

    def _wake_index(self) -> None:
        if self._index_thread:
            self._index_thread.wake()

    def snapshot_problem(self) -> str | None:
        """Return the damage that queries work around, or a wrong key, logged once; None if there is none."""
        collection = self.whole_searcher().collection
        problem = collection.snapshot_problem or self._switch_problem or collection.key_problem()
        if problem and problem != self._logged_problem:
            log.warning("collection %s: %s", self.name, problem)
        self._logged_problem = problem
        return problem


def _not_ready(error: CbirError) -> NotReady:
    if isinstance(error, NotReady):
        return error
    return (NotAccessible if isinstance(error, AccessDenied) else NotReady)(str(error))


def _file_states(folder: Path) -> FileStates:
    """Return what changes when the database is written, but not when it is only opened."""
    states = []
    for name in (DATABASE, f"{DATABASE}-wal", DATABASE_FILE):
        with suppress(OSError):
            status = (folder / name).stat()
            if status.st_size:
                states.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(states)


def _database_identity(folder: Path) -> FileIdentity:
    """Return which file the database is, or names its server; if it is gone, which one the last good copy has."""
    for name in (DATABASE, DATABASE_FILE, f"{COPY}/{DATABASE}"):
        try:
            status = (folder / name).stat()
        except FileNotFoundError:
            continue
        except PermissionError:
            raise
        except OSError as error:
            raise NotReady(f"there is no collection in {folder}: {error.strerror}") from error
        return status.st_dev, status.st_ino
    raise NotReady(f"there is no collection in {folder}")
