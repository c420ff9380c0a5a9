"""Kinds of jobs: from the stored request to what a process does, with the settings of the worker's machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbir.settings import Settings
from cbir.system.features import FeatureUnusable, features
from cbir.system.threads import cores
from indexer.index_job import run_index_job
from indexer.index_request import IndexRequest
from service.jobs.folder_place import folder_place, has_many_writers
from service.jobs.job_requests import NewJob


class WorkRequest(Protocol):
    """Request that a process gets. collection: folder. sources: files or folders that it reads."""

    @property
    def collection(self) -> Path: ...
    @property
    def sources(self) -> Sequence[Path]: ...


class JobWork(NamedTuple):
    """Function that the process of a job runs: run(request, pipe)."""

    run: Callable[..., None]
    request: WorkRequest


class StoredRequest(BaseModel):
    """Stored request of a job. folder_name: of the collection's folder, see `new_index_job`."""

    model_config = ConfigDict(
        extra="forbid", strict=True
    )  # else what another version asks for would be left out

    folder_name: str


@dataclass(frozen=True)
class JobKind:
    """A kind of job, of the core or of a feature.

    stored: model of the request. work: returns what the process does, of the stored request, the folder of the
    collection on this machine, and the settings of the worker. obstacle: returns what is missing to run such jobs.
    """

    stored: type[StoredRequest]
    work: Callable[[dict[str, Any], Path, Settings], JobWork]
    obstacle: Callable[[], str | None] = lambda: None


class StoredIndexRequest(StoredRequest):
    """Stored request to index; see `new_index_job`."""

    sources: list[str] = Field(min_length=1)
    labels: str | None
    processes: int | None
    duplicates: bool
    restore: bool
    actor: str


def _index_work(request: dict[str, Any], folder: Path, settings: Settings) -> JobWork:
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


def job_kinds() -> dict[str, JobKind]:
    """Return the kinds of jobs by name: to index, and those of features; raises FeatureUnusable."""
    kinds = {"index": JobKind(StoredIndexRequest, _index_work)}
    for feature in features():
        for name, reference in feature.jobs.items():
            if name in kinds:
                raise FeatureUnusable(f"feature {feature.name}: there is another kind of job {name}")
            kinds[name] = feature.load(reference)
    return kinds


def can_read(kind: str, request: dict[str, Any]) -> bool:
    """Return whether this version of cbir understands all of a stored request; others may have written it."""
    try:
        job_kinds()[kind].stored.model_validate(request)
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
