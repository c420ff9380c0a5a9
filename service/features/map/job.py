"""Computing the map of a collection as a job of the service, in a process of its own."""

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from cbir.store import Collection
from indexer.index_job import run_until_cancelled
from indexer.index_progress import JobProgress
from service.features.map.layout.collection_map import compute_map, store_map


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
