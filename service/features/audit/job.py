"""The audit of a collection as a job of the service, in a process of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.snapshot.derived_files import drop_audit_file, write_audit_file
from indexer.index_job import run_until_cancelled
from indexer.index_progress import JobProgress
from service.jobs.job_work import JobKind, JobWork, StoredRequest, folder_place
from service.jobs.stored_jobs import NewJob

STEPS = 1000  # of a whole audit
STAGE_ENDS = {"neighbours": 750, "labels": 850, "drift": 1000}  # those before are of duplicates


@dataclass(frozen=True)
class AuditJobRequest:
    """A request to audit the collection in a folder, with keys as of `AuditOptions`. sources: its files, none."""

    collection: Path
    settings: Settings
    label: str | None = None
    split: str | None = None
    source: str | None = None
    groups: tuple[str, ...] = ()
    sources: tuple[Path, ...] = ()


@dataclass
class AuditSummary:
    """Counts of a job. images: of the collection."""

    images: int
    interrupted: bool = False


class AuditSteps:
    """Turns the progress of stages into steps of the whole audit, which never go back.

    Parameters
    ----------
    send : callable
        Called with the steps done.
    """

    def __init__(self, send: Callable[[int], None]) -> None:
        self._send, self._start, self._end, self._stage = send, 0, 0, ""
        self.done = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Send the steps that are done."""
        if stage != self._stage:
            self._stage, self._start = stage, self._end
            # How many stages duplicates take is not known: each gets half of what is left.
            self._end = STAGE_ENDS.get(stage, (self._start + 700) // 2)
        steps = self._start + (self._end - self._start) * done // max(total, 1)
        self.done = max(self.done, min(steps, STEPS))
        self._send(self.done)


def run_audit_job(request: AuditJobRequest, pipe: Connection) -> None:
    """Audit and store the result; messages as of `run_index_job`, with thousandths in place of files."""
    run_until_cancelled(lambda: _audit(request, pipe), pipe)


def _audit(request: AuditJobRequest, pipe: Connection) -> AuditSummary:
    from service.features.audit.collection_audit import (  # scikit-learn: not in every service
        AuditOptions,
        run_audit,
        summarise_audit,
    )

    def send(done: int) -> None:
        try:
            pipe.send(JobProgress(done, STEPS, refused=0))
        except OSError:  # the service has ended
            raise KeyboardInterrupt from None

    options = AuditOptions(request.label, request.split, request.source, request.groups)
    with Collection(request.collection) as collection:
        audit = run_audit(collection, options, request.settings, AuditSteps(send))
        write_audit_file(collection.folder, summarise_audit(audit).model_dump_json())
        # An erasure that began before the file was written did not find it.
        if not set(audit.images.image_ids) <= set(collection.image_ids().values()):
            drop_audit_file(collection.folder)
    send(STEPS)
    return AuditSummary(len(audit.images))


class StoredAuditRequest(StoredRequest):
    """Stored request to audit; see `new_audit_job`."""

    label: str | None
    split: str | None
    source: str | None
    groups: list[str]


def _audit_work(request: dict[str, Any], folder: Path, settings: Settings) -> JobWork:
    keys = {name: request[name] for name in ("label", "split", "source")}
    work = AuditJobRequest(folder, settings, **keys, groups=tuple(request["groups"]))
    return JobWork(run_audit_job, work)


AUDIT = JobKind(StoredAuditRequest, _audit_work)


def new_audit_job(collection: str, folder: Path, options: dict[str, Any]) -> NewJob:
    """Return a job that audits a collection and stores the result in its folder; options: keys of `AuditOptions`."""
    place = folder_place(folder, create=True)
    return NewJob("audit", collection, options | {"folder_name": folder.name}, place, lane=f"audit {place}")
