"""Maps of the service's collections: read from their files, extended by added images, computed by jobs."""

import logging
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from cbir.errors import CollectionDamaged, NotFound
from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import Floats
from cbir.store import Collection
from cbir.store.snapshot.derived_files import MAP_FILE, StoredMap, read_map
from cbir.store.views.collection_view import View
from cbir.system.cancellation import locked
from service.collections.app_state import AppState
from service.features.map.collection_map import current_places, is_outdated
from service.features.map.job import new_map_job
from service.jobs.job_queue import JobQueue
from service.jobs.stored_jobs import JobRow

log = logging.getLogger(__name__)

FileState = tuple[int, int] | None  # mtime and inode of a map


@dataclass(frozen=True)
class PlacedView:
    """Places (n, 2) of the rows of a gallery, NaN where unknown. outdated: a new map is due."""

    file: FileState
    gallery: Gallery
    positions: Floats
    outdated: bool


class MapCache:
    """Places of the images of collections, and the jobs that compute them. Thread-safe."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs
        self._lock = Lock()
        self._stored: dict[Path, tuple[FileState, StoredMap | None]] = {}
        self._placed: dict[Path, PlacedView] = {}
        self._requesting = Lock()
        self._computing: dict[Path, str] = {}  # the latest job of each

    def placed(self, collection: Collection, view: View) -> PlacedView | None:
        """Return the positions of the rows of a view, which may be limited, of a collection; None without a map.

        Whether a new map is due depends on all images, also if a limited caller asks first.

        A map that cannot be read is none: it is computed again.
        """
        folder = collection.folder
        with locked(self._lock):
            stored = self._read(folder)
            if stored is None:
                return None
            file = self._stored[folder][0]
            placed = self._placed.get(folder)
            if placed is None or placed.gallery is not view.gallery or placed.file != file:
                outdated = is_outdated(collection.view(), collection.profile, stored)
                placed = PlacedView(file, view.gallery, current_places(view, stored), outdated)
                self._placed[folder] = placed
            return placed

    def compute(self, name: str, folder: Path) -> JobRow:
        """Return the job that computes the map of the collection `name` in a folder, requested unless there is one.

        A job that failed or was cancelled is not repeated before the service starts again. Raises StateUnavailable.
        """
        with locked(self._requesting):
            job = self._latest(folder)
            if job is None or job.state == "done":
                job = self._jobs.add(new_map_job(name, folder), once=True)
                self._computing[folder] = job.job
            return job

    def _latest(self, folder: Path) -> JobRow | None:
        name = self._computing.get(folder)
        try:
            return self._jobs.get(name) if name else None
        except NotFound:  # so many later jobs that it is not kept
            return None

    def _read(self, folder: Path) -> StoredMap | None:
        file = _file_state(folder)
        last_read = self._stored.get(folder)
        if last_read is None or last_read[0] != file:
            last_read = self._stored[folder] = file, _readable_map(folder)
        return last_read[1]


def map_cache(state: AppState) -> MapCache:
    """Return the maps of the collections of a service, as a part of its state."""
    return MapCache(state.jobs)


def _readable_map(folder: Path) -> StoredMap | None:
    try:
        return read_map(folder)
    except CollectionDamaged as damage:
        log.warning("%s", damage)
        return None


def _file_state(folder: Path) -> FileState:
    try:
        status = (folder / MAP_FILE).stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino
