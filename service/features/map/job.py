"""Computing the map of a collection as a job of the service, in a process of its own."""

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from cbir.store import Collection
from indexer.index_job import run_until_cancelled
from indexer.index_progress import JobProgress
from service.features.map import tsne
from service.features.map.collection_map import compute_map, store_map
from service.jobs.job_work import JobKind, JobWork, StoredRequest, folder_place
from service.jobs.stored_jobs import NewJob


@dataclass(frozen=True)
class MapRequest:
    """A request to compute the map of the collection in a folder. sources: files that it reads, none."""

    collection: Path
    sources: tuple[Path, ...] = ()


@dataclass
class MapSummary:
    """Counts of a job. images: on the map."""

    images: int
    interrupted: bool = False


def run_map_job(request: MapRequest, pipe: Connection) -> None:
    """Compute and store a map; messages as of `run_index_job`, with steps in place of files."""
    run_until_cancelled(lambda: _compute(request, pipe), pipe)


def _compute(request: MapRequest, pipe: Connection) -> MapSummary:
    def send(done: int, total: int) -> None:
        try:
            pipe.send(JobProgress(done, total, refused=0))
        except OSError:  # the service has ended
            raise KeyboardInterrupt from None

    with Collection(request.collection) as collection:
        computed = compute_map(collection.view(), collection.profile, send)
        store_map(collection, computed)
    return MapSummary(len(computed))


MAP = JobKind(
    StoredRequest,
    lambda request, folder, settings: JobWork(run_map_job, MapRequest(folder)),
    lambda: None if tsne.is_installed() else "a worker with the extra map",
)


def new_map_job(collection: str, folder: Path) -> NewJob:
    """Return a job that computes the map of a collection into its folder."""
    place = folder_place(folder, create=True)
    return NewJob("map", collection, {"folder_name": folder.name}, place, lane=f"map {place}")
