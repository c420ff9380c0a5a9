"""The kind of job that computes a map."""

from pathlib import Path

from service.features.map.job import MapRequest, run_map_job
from service.features.map.layout import tsne
from service.jobs.folder_place import folder_place
from service.jobs.job_requests import NewJob
from service.jobs.job_work import JobKind, JobWork, StoredRequest

MAP = JobKind(
    StoredRequest,
    lambda request, folder, settings: JobWork(run_map_job, MapRequest(folder)),
    lambda: None if tsne.is_installed() else "a worker with the extra map",
)


def new_map_job(collection: str, folder: Path) -> NewJob:
    """Return a job that computes the map of a collection into its folder."""
    place = folder_place(folder, create=True)
    return NewJob("map", collection, {"folder_name": folder.name}, place, lane=f"map {place}")
