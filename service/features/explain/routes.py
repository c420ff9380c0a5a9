"""Endpoint POST /v1/explain: why images are similar to a query."""

from typing import Annotated

from flask import Blueprint, Response, request
from pydantic import BeforeValidator, ConfigDict, Field

from cbir.images import Region
from cbir.search import ImageId
from cbir.search import example_values as example
from service.access.audit import log_images
from service.collections.app_state import current_state
from service.features.explain.messages import Explanations
from service.features.explain.result_explainer import ResultExplainer
from service.http import request_params
from service.http.operations import IMAGE_FILES, json_response, operation
from service.http.request_bodies import uploaded_file
from service.http.request_params import MAX_NAME_CHARACTERS, Numbers, Rendering, as_list
from service.http.timeouts import query_deadline

blueprint = Blueprint("explain", __name__, url_prefix="/v1")

MAX_ANSWERS = 20  # results of a request


class ExplainParameters(request_params.Parameters):
    """Results to explain."""

    answers: Annotated[
        list[ImageId], BeforeValidator(as_list), Field(min_length=1, max_length=MAX_ANSWERS)
    ] = Field(
        description=f"Ids of 1 to {MAX_ANSWERS} results.",
        examples=[[example.OTHER_IMAGE_ID]],
    )
    collection: Annotated[str | None, Field(max_length=MAX_NAME_CHARACTERS)] = Field(
        default=None,
        description="Name of the collection; the caller's first one by default.",
        examples=["knees"],
    )


class ExplainByImage(ExplainParameters, Rendering):
    """Explain the results of an uploaded image; frame, region and window are those of the search."""


class ExplainById(ExplainParameters):
    """Explain the results of an image of the collection."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"image_id": example.IMAGE_ID, "answers": [example.OTHER_IMAGE_ID]}]}
    )

    image_id: ImageId = Field(
        description="Id of the image that was searched with.", examples=[example.IMAGE_ID]
    )
    region: Annotated[Region | None, Numbers] = Field(
        default=None,
        description="Part of `image_id` that was searched with, as x,y,width,height in pixels from its upper left "
        "corner.",
        examples=[[40, 60, 120, 80]],
    )


@blueprint.post("/explain")
@operation(
    "explain",
    {200: Explanations},
    body={request_params.JSON: ExplainById, **IMAGE_FILES},
    form=ExplainByImage,
    query=ExplainByImage,
    problems=(400, 404, 410, 413, 415, 422, 504),
    python=f'client.explain("query.png", ["{example.OTHER_IMAGE_ID}"])',
)
def post_explain() -> Response:
    """Explain why images are similar to a query.

    Send the query as for a search of images, and the ids of results. For encoders of images the answer has maps of
    the places that match; a region is compared in the context of its image. For descriptors of several parts, such as
    huang2012, it has the shares of the parts in the distance. It shows what images have in common for the
    descriptor, and is no diagnosis. Other profiles are refused with 422, among them trained embeddings.
    """
    state = current_state()
    with state.concurrency.admit():
        params: ExplainById | ExplainByImage
        if request.mimetype == request_params.JSON:
            params = request_params.request_parameters(ExplainById)
        else:
            data = uploaded_file(state.settings)
            params = request_params.request_parameters(ExplainByImage)
        explainer = ResultExplainer(state, state.searcher(params.collection).collection)
        if isinstance(params, ExplainById):
            query = explainer.query_of_id(params.image_id, params.region)
        else:
            query = explainer.query_of_upload(data, params)
        records = [explainer.collection.record(image_id) for image_id in params.answers]
        with query_deadline(state.settings.query_seconds):  # rendered where no thumbnails are stored
            pictures = [explainer.picture(record) for record in records]
        with state.concurrency.slot(), query_deadline(state.settings.query_seconds):
            items = explainer.explain(query, records, pictures)
    asked = [params.image_id] if isinstance(params, ExplainById) else []
    log_images([*asked, *params.answers])
    return json_response(Explanations(kind="places" if explainer.encoder else "parts", items=items))
