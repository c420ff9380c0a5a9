"""Endpoints of labels: keys, and values with their numbers of images."""

from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field

from service.client.image_messages import LabelFacet, LabelFacets, LabelValueCount, LabelValuePage
from service.collections.app_state import current_state
from service.http import request_params
from service.http.operations import json_response, operation
from service.http.timeouts import query_deadline
from service.routes.image_routes import CollectionParameters, ImageListParameters

blueprint = Blueprint("collection", __name__, url_prefix="/v1")

KeyInPath = Annotated[str, Field(description="Key of the label.", examples=["modality"])]


class LabelKeyParameters(CollectionParameters):
    """Images whose labels count."""

    where: request_params.Where = Field(default=[])


class LabelValueParameters(ImageListParameters):
    """Page of the values of the images that meet conditions."""


@blueprint.get("/labels")
@operation(
    "labels", {200: LabelFacets}, query=LabelKeyParameters, problems=(404, 422, 504), python="client.labels()"
)
def get_labels() -> Response:
    """List the label keys with their numbers of images and of values, and the number of images.

    With `where`, the labels of the images that meet the conditions.
    """
    state, params = current_state(), request_params.query_parameters(LabelKeyParameters)
    collection = state.searcher(params.collection).collection
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        conditions = collection.conditions(params.where)
        keys, images = collection.list_label_keys(conditions), collection.count(conditions)
    return json_response(LabelFacets(images=images, items=[LabelFacet(**key._asdict()) for key in keys]))


@blueprint.get("/labels/<path:key>")
@operation(
    "label_values",
    {200: LabelValuePage},
    query=LabelValueParameters,
    problems=(400, 404, 422, 504),
    python='client.label_values("modality")',
)
def get_label_values(key: KeyInPath) -> Response:
    """List the values of a label with their numbers of images, the most frequent first, page by page.

    With `where`, the values of the images that meet the conditions; the totals are theirs too. A key that no image
    has is refused.
    """
    state, params = current_state(), request_params.query_parameters(LabelValueParameters)
    collection, offset = state.searcher(params.collection).collection, int(params.cursor or 0)
    with state.concurrency.admit(), state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        conditions = collection.conditions(params.where)
        facts = collection.list_label_values(key, conditions, offset, params.limit)._asdict()
    items = [LabelValueCount(**item._asdict()) for item in facts.pop("items")]
    end = offset + len(items)
    return json_response(
        LabelValuePage(**facts, items=items, next=str(end) if end < facts["values"] else None)
    )
