"""Work of each kind of job, and the collections and folders that a worker may use for it."""

import json
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbir.settings import Settings
from cbir.store.collection_address import is_alias
from cbir.system.features import FeatureUnusable, features
from cbir.system.ownership import create_file
from cbir.system.threads import cores
from indexer.index_job import run_index_job
from indexer.index_request import IndexRequest
from service.jobs.job_claims import JobCandidate
from service.jobs.stored_jobs import NewJob

NAME = "folder-id.json"
LockFolder = Callable[[str, Path], AbstractContextManager[None]]  # raises CollectionBusy


def folder_place(folder: Path, *, create: bool = False) -> str | None:
    """Return the identity of a folder; None if it has none yet, unless it is to be created.

    It is in a file, so that it is the same in all containers and on all machines that mount the folder. A copy of the
    file has another inode: it is not the same folder. Where the file cannot be written, machine and path identify it.
    """
    file = folder / NAME
    place = _read(file)
    if place is not None:
        return place
    if not os.access(folder, os.W_OK):
        return f"{socket.gethostname()}:{folder.resolve()}"
    if create:
        with suppress(OSError):
            _write(file)
        return _read(file) or f"{socket.gethostname()}:{folder.resolve()}"
    return None


def has_many_writers(folder: Path) -> bool:
    """Return whether several processes may write to the collection in a folder at once: one in PostgreSQL."""
    return (folder / "database.json").is_file()


def _read(file: Path) -> str | None:
    try:
        content = json.loads(file.read_bytes())
        return str(content["id"]) if content["inode"] == file.stat().st_ino else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path) -> None:
    """Write the file; of processes that do so at once, the last one's stays."""
    identity = secrets.token_hex(16)
    partial = file.with_name(f"{NAME}.{identity}")
    try:
        with open(create_file(partial, os.O_WRONLY, 0o666), "wb") as opened:
            inode = os.fstat(opened.fileno()).st_ino
            opened.write(json.dumps({"id": identity, "inode": inode}).encode())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


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


class WorkerPlace:
    """Collections and folders of a worker.

    Parameters
    ----------
    collections : mapping of str to Path
        Folder or alias of each collection, by its name.
    settings : Settings
        Settings of the worker.
    lock : callable, optional
        Called with the name and folder of a collection; keeps this process from writing to it, or raises
        CollectionBusy.
    """

    def __init__(
        self,
        collections: Mapping[str, Path],
        settings: Settings,
        lock: LockFolder = lambda name, folder: nullcontext(),
    ) -> None:
        job_kinds()  # raises at start if a feature cannot be used
        self._collections = collections
        self._settings = settings
        self._lock = lock

    def obstacle(self, job: JobCandidate) -> str | None:
        """Return what is missing here to run a job, without names of folders; None if nothing is."""
        if not can_read(job.kind, job.request):
            return f"a worker of the version of cbir that accepted this job of kind {job.kind}"
        if self._folder(job) is None:
            return f"a worker with the collection {job.collection}, and the same folder or database of it"
        if missing := job_kinds()[job.kind].obstacle():
            return missing
        paths = [*job.request.get("sources", ()), *filter(None, [job.request.get("labels")])]
        roots = [os.path.realpath(root) for root in self._settings.index_roots]
        # As text: where links lead is checked when the job runs.
        if not all(any(Path(path).is_relative_to(root) for root in roots) for path in paths):
            return "a worker that has the folder of the job below its setting index_roots"
        return None

    def work(self, job: JobCandidate) -> JobWork:
        """Return what the process of a job without an obstacle does."""
        folder = self._folder(job)
        assert folder is not None
        return job_kinds()[job.kind].work(job.request, folder, self._settings)

    def lock(self, job: JobCandidate) -> AbstractContextManager[None]:
        """Keep requests of this process from writing while an indexing job does; raises CollectionBusy."""
        folder = self._folder(job)
        if folder is None or job.kind != "index" or job.lane is None:
            return nullcontext()
        return self._lock(job.collection, folder)

    def _folder(self, job: JobCandidate) -> Path | None:
        """Return the folder of the job's collection, None if it is not here."""
        path = self._collections.get(job.collection)
        if path is None:
            return None
        if is_alias(path):  # which may have been switched since the request
            path = path.parent.resolve() / Path(job.request["folder_name"]).name
        if job.place is not None and folder_place(path) != job.place:
            return None
        return path
