"""From the request of a stored job to what its process does, with the settings of the worker's machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbir.settings import Settings
from cbir.system.threads import cores
from indexer.index_job import run_index_job
from indexer.index_request import IndexRequest
from service.features.audit.job import AuditJobRequest, run_audit_job
from service.features.map.job import MapRequest, run_map_job
from service.jobs.folder_place import folder_place, has_many_writers
from service.jobs.stored_jobs import NewJob


class JobWork(NamedTuple):
    """Function that the process of a job runs: run(request, pipe)."""

    run: Callable[..., None]
    request: IndexRequest | MapRequest | AuditJobRequest


class StoredMapRequest(BaseModel):
    """Stored request for a map. folder_name: of the collection's folder, see `new_index_job`."""

    model_config = ConfigDict(
        extra="forbid", strict=True
    )  # else what another version asks for would be left out

    folder_name: str


class StoredIndexRequest(StoredMapRequest):
    """Stored request to index; see `new_index_job`."""

    sources: list[str] = Field(min_length=1)
    labels: str | None
    processes: int | None
    duplicates: bool
    restore: bool
    actor: str


class StoredAuditRequest(StoredMapRequest):
    """Stored request to audit; see `new_audit_job`."""

    label: str | None
    split: str | None
    source: str | None
    groups: list[str]


STORED_REQUESTS: dict[str, type[BaseModel]] = {
    "index": StoredIndexRequest,
    "map": StoredMapRequest,
    "audit": StoredAuditRequest,
}


def can_read(kind: str, request: dict[str, Any]) -> bool:
    """Return whether this version of cbir understands all of a stored request; others may have written it."""
    try:
        STORED_REQUESTS[kind].model_validate(request)
    except (KeyError, ValidationError):
        return False
    return True


def new_index_job(collection: str, folder: Path, options: dict[str, Any]) -> NewJob:
    """Return a job that indexes into a collection.

    Parameters
    ----------
    collection : str
        Name of the collection.
    folder : Path
        Its folder at the moment, if the name is of an alias.
    options : dict
        sources: absolute paths; labels: absolute path or None; processes: number or None; duplicates, restore: flags;
        actor: name in the collection's history.
    """
    request = options | {"folder_name": folder.name}
    if has_many_writers(folder):
        return NewJob("index", collection, request)
    place = folder_place(folder, create=True)
    return NewJob("index", collection, request, place, lane=place)


def new_map_job(collection: str, folder: Path) -> NewJob:
    """Return a job that computes the map of a collection into its folder."""
    place = folder_place(folder, create=True)
    return NewJob("map", collection, {"folder_name": folder.name}, place, lane=f"map {place}")


def new_audit_job(collection: str, folder: Path, options: dict[str, Any]) -> NewJob:
    """Return a job that audits a collection and stores the result in its folder; options: keys of `AuditOptions`."""
    place = folder_place(folder, create=True)
    return NewJob("audit", collection, options | {"folder_name": folder.name}, place, lane=f"audit {place}")


def job_work(kind: str, request: dict[str, Any], folder: Path, settings: Settings) -> JobWork:
    """Return what the process of a job does.

    Parameters
    ----------
    kind : {"index", "map", "audit"}
        Kind of job.
    request : dict
        Of the job, as above.
    folder : Path
        Folder of the collection on this machine.
    settings : Settings
        Settings of the worker.
    """
    if kind == "map":
        return JobWork(run_map_job, MapRequest(folder))
    if kind == "audit":
        keys = {name: request[name] for name in ("label", "split", "source")}
        return JobWork(
            run_audit_job, AuditJobRequest(folder, settings, **keys, groups=tuple(request["groups"]))
        )
    available = cores()
    processes = request["processes"] or max(1, available // 2)
    work = IndexRequest.with_settings(
        settings,
        tuple(map(Path, request["sources"])),
        folder,
        labels=Path(request["labels"]) if request["labels"] is not None else None,
        jobs=min(processes, available),
        duplicates=request["duplicates"],
        restore=request["restore"],
        within=tuple(map(Path, settings.index_roots)),
        actor=request["actor"],
    )
    return JobWork(run_index_job, work)
