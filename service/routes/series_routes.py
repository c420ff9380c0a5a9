"""Endpoint GET /v1/series: the studies and series of a collection."""

from typing import Literal

from flask import Blueprint, Response
from pydantic import Field

from service.access.audit import log_images
from service.client.image_messages import DicomGroupInfo, DicomGroupPage
from service.collections.app_state import current_state
from service.http import request_params, responses
from service.http.operations import json_response, operation
from service.http.responses import page_that_fits
from service.http.timeouts import query_deadline
from service.routes.image_routes import ImageListParameters

blueprint = Blueprint("collection", __name__, url_prefix="/v1")


class SeriesParameters(ImageListParameters):
    """Page of the studies or series with images that meet conditions."""

    level: Literal["series", "study"] = Field(
        default="series", description="What is listed: `series`, the default, or `study`.", examples=["study"]
    )


@blueprint.get("/series")
@operation(
    "series",
    {200: DicomGroupPage},
    query=SeriesParameters,
    problems=(400, 404, 422, 504),
    python='client.series(level="study")',
)
def get_series() -> Response:
    """List the DICOM series or studies of a collection with their numbers of images, page by page.

    The one whose first image was added last comes first. The images of one are listed by `images` with its UIDs.
    """
    state, params = current_state(), request_params.query_parameters(SeriesParameters)
    collection, before = state.searcher(params.collection).collection, int(params.cursor or 0) or None
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        conditions = collection.conditions(params.where)
        groups = collection.dicom_groups(params.level, before, params.limit + 1, conditions)
        page = groups[: params.limit]
        middle = [group.middle for group in page]
        records, bare = collection.bounded_records_by_id(middle, responses.MAX_ANSWER_LABELS)
    page = [group for group in page if group.middle not in bare]
    page = page_that_fits(page, lambda group: records[group.middle].labels if group.middle in records else {})
    log_images(group.middle for group in page if group.middle in records)
    items = [
        DicomGroupInfo(
            study=group.study,
            series=group.series,
            images=group.images,
            image_id=group.middle,
            labels=records[group.middle].labels,
        )
        for group in page
        if group.middle in records  # else deleted meanwhile
    ]
    following = str(page[-1].first) if len(groups) > len(page) else None
    return json_response(DicomGroupPage(items=items, next=following))
