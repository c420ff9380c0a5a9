"""Page and endpoints of audits, and of images that the intake check keeps out."""

from pathlib import Path
from typing import Annotated

from flask import Blueprint, Response
from pydantic import AfterValidator, Field, ValidationError

from cbir.errors import CollectionDamaged, NotFound
from cbir.ingest.pixel_checks import findings_of
from cbir.search import example_values as example
from cbir.store import Collection
from cbir.store.snapshot.derived_files import read_audit_file
from cbir.store.upkeep.quarantine_release import (
    read_quarantined,
    read_quarantined_picture,
    refuse_images,
    release_images,
)
from cbir.system.access_rights import Scope
from service.access.audit import log_fields, log_images
from service.access.caller import actor_name, current_rights
from service.access.scopes import AccessRule
from service.client.collection_messages import JobInfo
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.features.audit.job import new_audit_job
from service.features.audit.messages import (
    Audit,
    AuditRequest,
    AuditState,
    LabelFindings,
    QuarantinedItem,
    QuarantinePage,
)
from service.http.operations import json_response, operation
from service.http.problems import Malformed
from service.http.request_params import JSON, json_body, query_parameters
from service.jobs.job_queue import job_info
from service.jobs.stored_jobs import JobRow
from service.languages import mark, use_english
from service.pages.core_pages import ShownCollection, collection_page
from service.pages.page_parts import MenuPage, label_filters_of
from service.routes.add_routes import refresh_snapshot
from service.routes.image_routes import MAX_PAGE, CollectionParameters

blueprint = Blueprint("audits", __name__)
MENU_PAGE = MenuPage("audits.show_quality", mark("Quality"), 60, scope=Scope.annotate)
DEFAULT_LABELS = ("label", "diagnosis", "anatomy")  # of which the first that images have is judged
JPEG = "image/jpeg"
QuarantinedIdInPath = Annotated[
    str, Field(description="Id of an image in quarantine.", examples=[example.QUARANTINED_ID])
]

RULES = {
    # An audit is of all images, and leads to corrections of labels.
    "GET /quality": AccessRule(Scope.annotate, unlimited=True),
    "GET /v1/audit": AccessRule(Scope.annotate, "audit", unlimited=True),
    "POST /v1/audit": AccessRule(Scope.annotate, "start-audit", unlimited=True),
    "GET /v1/quarantine": AccessRule(Scope.admin, "quarantine", unlimited=True),
    "GET /v1/quarantine/*/thumbnail": AccessRule(Scope.admin, "quarantine", unlimited=True),
    "POST /v1/quarantine/*/release": AccessRule(Scope.admin, "release", unlimited=True),
    "DELETE /v1/quarantine/*": AccessRule(Scope.admin, "refuse", unlimited=True),
}


@blueprint.get("/v1/audit")
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


@blueprint.post("/v1/audit")
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
    state, body = current_state(), json_body(AuditRequest)
    handle = state.handle(body.collection)
    searcher = handle.whole_searcher()
    searcher.vectors.require_whole("an audit")
    for key in (body.label, body.split, body.source, *body.groups):
        if key is not None:
            searcher.collection.conditions([f"{key}?"])  # raises for an unknown key
    options = body.model_dump(exclude={"collection"})
    job = state.jobs.add(new_audit_job(handle.name, handle.folder, options), once=True)
    log_fields(job=job.job)
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


@blueprint.get("/quality")
@collection_page
def show_quality(current: ShownCollection) -> str:
    """Show the audit and the quarantine of a collection."""
    use_english()
    rights, keys = current_rights(), list(label_filters_of(current.searcher.collection))
    facts = {
        "collection": current.handle.name,
        "in_links": current.in_links or "",
        "label_keys": keys,
        "chosen": next((key for key in DEFAULT_LABELS if key in keys), ""),
        "may_release": rights is not None and rights.allows(Scope.admin),
        "may_cancel": rights is not None and rights.allows(Scope.ingest),
    }
    return current.render("quality.html", facts=facts)


def check_id(text: str | None) -> str | None:
    """Return the cursor `text`; raises Malformed if it is no id of an image."""
    if text is not None and not (text.isalnum() and text.isascii() and len(text) <= 64):
        raise Malformed("cursor: use the field `next` of the previous page")
    return text


class QuarantineParameters(CollectionParameters):
    """Page of the quarantine."""

    limit: int = Field(default=100, ge=1, le=MAX_PAGE, description="Items of a page.", examples=[10])
    cursor: Annotated[str | None, AfterValidator(check_id)] = Field(
        default=None,
        description="Field `next` of the previous page; omitted for the first page.",
        examples=[example.IMAGE_ID],
    )


@blueprint.get("/v1/quarantine")
@operation(
    "quarantine",
    {200: QuarantinePage},
    query=QuarantineParameters,
    problems=(400, 404, 422),
    python="client.quarantine()",
)
def get_quarantine() -> Response:
    """List the images that the intake check keeps out, by id.

    It needs the scope `admin`, and a caller who is not limited to some images: their labels are not trusted yet.
    """
    params = query_parameters(QuarantineParameters)
    collection = current_state().handle(params.collection).whole_searcher().collection
    rows = read_quarantined(collection, params.cursor or "", params.limit + 1)
    page = rows[: params.limit]
    log_images(row.image_id for row in page)
    items = [
        QuarantinedItem(
            image_id=row.image_id,
            findings=findings_of(row.record),
            width=row.record.width,
            height=row.record.height,
            at=row.at,
        )
        for row in page
    ]
    return json_response(
        QuarantinePage(items=items, next=page[-1].image_id if len(rows) > len(page) else None)
    )


@blueprint.get("/v1/quarantine/<image_id>/thumbnail")
@operation(
    "quarantined_thumbnail",
    {200: JPEG},
    query=CollectionParameters,
    problems=(404, 422),
    python=f'client.quarantined_thumbnail("{example.QUARANTINED_ID}")',
)
def get_quarantined_thumbnail(image_id: QuarantinedIdInPath) -> Response:
    """Return the thumbnail of a quarantined image.

    404 for an image of the collection, which has an address of its own.
    """
    params = query_parameters(CollectionParameters)
    picture = read_quarantined_picture(
        current_state().handle(params.collection).whole_searcher().collection, image_id
    )
    response = Response(picture, mimetype=JPEG)
    response.headers["Cache-Control"] = "private, no-store"
    return response


@blueprint.post("/v1/quarantine/<image_id>/release")
@operation(
    "release",
    {204: None},
    query=CollectionParameters,
    problems=(404, 422, 507),
    confirm="Add this image to the collection?",
    python=f'client.release("{example.QUARANTINED_ID}")',
)
def post_release(image_id: QuarantinedIdInPath) -> tuple[str, int]:
    """Add a quarantined image to the collection: searches find it from now on.

    404 if the quarantine does not have the image, as after an earlier release.
    """
    handle = current_state().handle(query_parameters(CollectionParameters).collection)
    with handle.writer(actor_name()) as writer:
        added = release_images(writer, [image_id])
        log_images([image_id])
        refresh_snapshot(writer, handle, added)
    return "", 204


@blueprint.delete("/v1/quarantine/<image_id>")
@operation(
    "refuse",
    {204: None},
    query=CollectionParameters,
    problems=(404, 422, 507),
    confirm="Delete this image?",
    python=f'client.refuse("{example.QUARANTINED_ID}")',
)
def delete_quarantined_image(image_id: QuarantinedIdInPath) -> tuple[str, int]:
    """Delete a quarantined image; indexing its file again does not bring it back.

    404 if the quarantine does not have the image.
    """
    handle = current_state().handle(query_parameters(CollectionParameters).collection)
    with handle.writer(actor_name()) as writer:
        refuse_images(writer, [image_id])
        log_images([image_id])
    return "", 204
