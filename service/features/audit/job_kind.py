"""The kind of job that audits a collection."""

from pathlib import Path
from typing import Any

from cbir.settings import Settings
from service.features.audit.job import AuditJobRequest, run_audit_job
from service.jobs.folder_place import folder_place
from service.jobs.job_requests import NewJob
from service.jobs.job_work import JobKind, JobWork, StoredRequest


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
