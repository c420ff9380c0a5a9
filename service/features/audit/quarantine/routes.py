"""Endpoints of images that the intake check keeps out: list, show, release, refuse."""

from typing import Annotated

from flask import Blueprint, Response
from pydantic import AfterValidator, Field

from cbir.ingest.checks.pixel_checks import findings_of
from cbir.search import example_values as example
from cbir.store.upkeep.quarantine_release import (
    read_quarantined,
    read_quarantined_picture,
    refuse_images,
    release_images,
)
from service.access.audit import log_images
from service.access.caller import actor_name
from service.collections.app_state import current_state
from service.features.audit.quarantine.messages import QuarantinedItem, QuarantinePage
from service.http.operations import json_response, operation
from service.http.problems import Malformed
from service.http.request_params import query_parameters
from service.routes.add_routes import refresh_snapshot
from service.routes.image_routes import MAX_PAGE, CollectionParameters

blueprint = Blueprint("quarantine", __name__, url_prefix="/v1/quarantine")

JPEG = "image/jpeg"
QuarantinedIdInPath = Annotated[
    str, Field(description="Id of an image in quarantine.", examples=[example.QUARANTINED_ID])
]


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


@blueprint.get("")
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


@blueprint.get("/<image_id>/thumbnail")
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


@blueprint.post("/<image_id>/release")
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


@blueprint.delete("/<image_id>")
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
