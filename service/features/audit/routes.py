"""Endpoints of the audit of a collection: its latest result, and the job that makes another."""

from pathlib import Path

from flask import Blueprint, Response
from pydantic import ValidationError

from cbir.errors import CollectionDamaged, NotFound
from cbir.store import Collection
from cbir.store.snapshot.derived_files import read_audit_file
from service.access.audit import log_images, log_job
from service.client.messages import JobInfo
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.features.audit.checks.audit_messages import Audit, AuditRequest, AuditState, LabelFindings
from service.features.audit.job_kind import new_audit_job
from service.http.operations import json_response, operation
from service.http.request_params import JSON, json_body, query_parameters, require_json
from service.jobs.job_queue import job_info
from service.jobs.stored_jobs import JobRow
from service.routes.image_routes import CollectionParameters

blueprint = Blueprint("audits", __name__, url_prefix="/v1/audit")


@blueprint.get("")
@operation("audit", {200: AuditState}, query=CollectionParameters, problems=(404,), python="client.audit()")
def get_audit() -> Response:
    """Show the latest audit of a collection: duplicates, leaks, suspect labels, outliers, drift and coverage.

    An audit is of all images, so callers that are limited to a part of them get 403. Ids of images that were deleted
    since stay in it until the next one; erasing a patient deletes it.
    """
    handle = current_state().handle(query_parameters(CollectionParameters).collection)
    collection = handle.whole_searcher().collection
    audit = _stored_audit(collection.folder)
    job = _latest_job(handle)
    active = job is not None and job.state in ("waiting", "running")
    failed = job is not None and job.state == "failed"
    changed = audit is not None and audit.generation != collection.generation()
    labels = audit.labels if audit else None
    if labels:
        log_images(item.image_id for item in labels.items)
    message = AuditState(
        state="computing" if active else "failed" if failed else "ready" if audit else "none",
        job=job.job if job else None,
        done=job.done if job else 0,
        total=job.total if job else None,
        error=job.error if failed and job else None,
        changed=changed,
        corrected=_corrected(collection, labels) if labels and changed else {},
        audit=audit,
    )
    return json_response(message)


@blueprint.post("")
@operation(
    "start_audit",
    {202: JobInfo},
    body={JSON: AuditRequest},
    problems=(400, 404, 413, 415, 422),
    confirm="Audit this collection?",
    python='client.start_audit(label="modality")',
)
def post_audit() -> Response:
    """Start the audit of a collection; while one waits or runs, that job is returned.

    It reads the vectors and the files of all images, which takes minutes. A label that no image has is refused.
    """
    require_json()
    state, body = current_state(), json_body(AuditRequest)
    handle = state.handle(body.collection)
    searcher = handle.whole_searcher()
    searcher.vectors.require_whole("an audit")
    for key in (body.label, body.split, body.source, *body.groups):
        if key is not None:
            searcher.collection.conditions([f"{key}?"])  # raises for an unknown key
    options = body.model_dump(exclude={"collection"})
    job = state.jobs.add(new_audit_job(handle.name, handle.folder, options), once=True)
    log_job(job.job)
    return json_response(job_info(job), 202)


def _corrected(collection: Collection, labels: LabelFindings) -> dict[str, str]:
    """Return the values that labels of suspects have now, by image id, where they are others than in the audit."""
    records = collection.records_by_id(item.image_id for item in labels.items)
    values = {image_id: record.labels.get(labels.key, "") for image_id, record in records.items()}
    return {
        item.image_id: values[item.image_id]
        for item in labels.items
        if values.get(item.image_id, item.label) != item.label
    }


def _stored_audit(folder: Path) -> Audit | None:
    """Return the latest audit; None if there is none, or it is damaged or of another version of cbir."""
    try:
        text = read_audit_file(folder)
        return Audit.model_validate_json(text) if text else None
    except (ValidationError, CollectionDamaged):
        return None


def _latest_job(handle: CollectionHandle) -> JobRow | None:
    """Return the latest audit job of a collection; None if it is not kept."""
    jobs = (
        job for job in current_state().jobs.all() if job.kind == "audit" and job.collection == handle.name
    )
    try:
        return next(jobs, None)
    except NotFound:
        return None
