"""State shared by the views of one app: settings, concurrency limit, collections and caches."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
from flask import current_app

from cbir.api.commands.show_commands import origins_in_force
from cbir.errors import CbirError, InvalidInput, NotFound
from cbir.images import Image
from cbir.images.scaling import encode_image
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store.collection_address import public_name
from service.access.caller import caller_key, current_rights
from service.collections.image_sources import ArchiveThumbnails, Decoders, LruCache
from service.collections.mounted_collection import CollectionHandle
from service.collections.part_checks import checked_parts, written_folders
from service.collections.uploads import describe_task
from service.http.concurrency import ConcurrencyLimit
from service.http.problems import error_location
from service.jobs.job_queue import JobQueue
from service.jobs.job_work import WorkerPlace
from service.jobs.job_worker import JobWorker
from service.state.database import open_state

EXTENSION = "cbir"
CACHE_BYTES = 64 * 2**20
Part = TypeVar("Part")

log = logging.getLogger(__name__)


class AppState:
    """Settings, collections and caches that the views of one app share. Thread-safe.

    collections: handles by name, see `alias.public_name`; requests that name none mean the first, `default`.
    """

    def __init__(self, paths: Sequence[Path], settings: Settings) -> None:
        check_unique_names(paths)
        self.settings = settings
        self.started = datetime.now(UTC).replace(microsecond=0)
        self.origins = origins_in_force(settings)
        self.concurrency = ConcurrencyLimit(
            settings.threads, settings.queue, settings.queue_seconds, caller_key
        )
        self.thumbnails = LruCache(CACHE_BYTES)
        self._parts: dict[Callable[[AppState], Any], Any] = {}
        self._parts_lock = RLock()
        self.on_replaced: list[Callable[[Path], None]] = []  # with the folder of a collection no longer used
        handles = [CollectionHandle(path, settings, self._forget) for path in paths]
        self.collections = {handle.name: handle for handle in handles}
        self.default = handles[0].name
        self.database = open_state(settings)
        self.parts = checked_parts(settings, self.database, self.folders)
        place = WorkerPlace({handle.name: handle.path for handle in handles}, settings, self._lock_collection)
        self.worker = JobWorker(self.database, place, settings.job_workers)
        self.jobs = JobQueue(self.database, self.worker)
        self.decoders = Decoders(settings)
        self.archive_thumbnails = ArchiveThumbnails(settings, self.decoders)

    def folders(self) -> dict[str, Path]:
        """Return the folders that the service writes to, by what they hold."""
        return written_folders(self.settings, self.collections.values())

    def part(self, make: Callable[["AppState"], Part]) -> Part:
        """Return what `make` has made of this state, once for all requests, such as a cache of a feature."""
        with self._parts_lock:
            if make not in self._parts:
                self._parts[make] = make(self)
            return cast(Part, self._parts[make])

    def _forget(self, folder: Path) -> None:
        for forget in self.on_replaced:
            forget(folder)

    def _lock_collection(self, name: str, folder: Path) -> AbstractContextManager[None]:
        return self.collections[name].indexing(folder, wait=False)

    def visible_names(self) -> list[str]:
        """Return the names of the collections that the caller may use, its default one first."""
        rights = current_rights()
        return [name for name in self.collections if rights and rights.allows_collection(name)]

    def handle(self, name: str | None = None) -> CollectionHandle:
        """Return the handle of the collection `name`, the caller's default one for None; raises NotFound."""
        names = self.visible_names()
        if not names:
            raise NotFound("this caller may use none of the collections of this service")
        if (name or names[0]) not in names:
            raise NotFound(f"there is no collection {name}; there are: {', '.join(names)}")
        return self.collections[name or names[0]]

    def searcher(self, name: str | None = None) -> Searcher:
        """Return the searcher of the collection `name`; raises NotFound and NotReady."""
        return self.handle(name).searcher()

    def snapshot_problem(self) -> str | None:
        """Return the damage of the default collection that queries work around, None if there is none."""
        return self.handle().snapshot_problem()

    def warm_up(self) -> None:
        """Load the vectors and all code of a query, so that the first request does not wait for them."""
        ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
        self.decoders.start()
        for handle in self.collections.values():
            try:
                collection = handle.whole_searcher().collection
                of_volumes = collection.profile.volume_grid is not None
                if of_volumes:  # no image to try, and its network takes seconds
                    if not handle.is_indexed:
                        collection.view()
                    continue
                if handle.index_answers():
                    handle.searcher().by_image(Image(ramp), Request(k=1), Stopwatch())
                handle.snapshot_problem()
                self.decoders.warm_up(describe_task(self.decoders, collection), encode_image(ramp, ".png"))
            except CbirError as error:
                log.warning("not ready: %s", error)
            except Exception as error:
                log.warning("the first search failed: %s", error_location(error))


def check_unique_names(paths: Sequence[Path]) -> None:
    """Raise InvalidInput if two folders or aliases have the same name, since requests name collections by it."""
    names = [public_name(path) for path in paths]
    if duplicates := {name for name in names if names.count(name) > 1}:
        raise InvalidInput(
            f"two collections have the folder name {min(duplicates)}; folder names must be unique, "
            "since requests name collections by them"
        )


def current_state() -> AppState:
    """Return the state of the app that handles the current request."""
    return cast(AppState, current_app.extensions[EXTENSION])
