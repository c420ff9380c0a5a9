"""Endpoints POST /v1/search and POST /v1/render."""

from functools import partial

from flask import Blueprint, Response, request

from cbir.errors import InvalidInput
from cbir.ingest.decoder_tasks import describe_choice
from cbir.query_image import QueryImage
from cbir.search import Answer
from cbir.store import Collection
from service.access.audit import log_images
from service.access.patient_identifiers import patient_key
from service.api import metrics_routes
from service.api.operations import IMAGE_FILES, SERIES_FILES, json_response, operation
from service.collections.app_state import AppState, current_state
from service.collections.image_sources import decode_source
from service.http import request_params
from service.http.query_deadline import query_deadline
from service.ingest.uploads import describe_task, describe_upload, render_upload

blueprint = Blueprint("api", __name__, url_prefix="/v1")

RENDERED_SIDE = 1024  # pixels


@blueprint.post("/search")
@operation(
    "search",
    {200: Answer},
    body={request_params.JSON: request_params.ById, **IMAGE_FILES, **SERIES_FILES},
    form=request_params.ByImage,
    several_files=True,
    query=request_params.ByImage,
    problems=(400, 404, 410, 413, 415, 422, 504),
)
def post_search() -> Response:
    """Search for images similar to an uploaded or indexed one.

    Send the image in the form field `image` (repeat it for several examples) or as the body itself. Name images of
    the collection in a JSON body; a region of one is cut from its file at full resolution. Parameters may be in the
    query string, in the form or in the JSON. Re-rankers and their `parameters` are listed by `rerankers`; the
    response reports those that were used. With several examples or with `feedback` the ranking is learned from them,
    by `feedback` or another method that takes several examples; images judged relevant then come first, those judged
    not relevant last. Examples are excluded from the results. A collection whose encoder has a text tower is searched
    by `text` in a JSON body; scores are then the cosines of text and images, and `rerank` is left out or `none`.
    In a collection of CT series every file is a series: a ZIP archive of its DICOM slices, or a NIfTI volume.
    """
    state, query_id = current_state(), None
    params: request_params.SearchParameters
    with state.concurrency.admit():
        if request.mimetype == request_params.JSON:
            params = by_id = request_params.request_parameters(request_params.ById)
            answer, query_id = _search_by_id(state, by_id), by_id.image_id
        else:
            files = request_params.uploaded_examples(state.settings)
            params = by_image = request_params.request_parameters(request_params.ByImage)
            answer = _search_by_upload(state, files, by_image)
    metrics_routes.observe_stages(answer.timings_ms)
    if params.collection:
        for hit in answer.results:
            hit.links = hit.links.in_collection(params.collection)
    log_images(
        [query_id or answer.query.image_id, *params.examples, *(hit.image_id for hit in answer.results)]
    )
    return json_response(answer)


def _search_by_id(state: AppState, params: request_params.ById) -> Answer:
    patient = patient_key(state.searcher(params.collection).collection, params.exclude_patient)
    search_request = params.to_request(state.settings, patient)
    if params.region and not params.image_id:
        raise InvalidInput("region: needs image_id, the image it is a region of")
    if params.text is not None:
        if "text" in request.args:
            raise InvalidInput("text: send it in the JSON; addresses are written to logs")
        if params.image_id:
            raise InvalidInput("text, image_id: search with one of them")
    searcher, part = state.searcher(params.collection), None
    if params.image_id and params.region:
        if searcher.collection.profile.volume_grid:
            raise InvalidInput("region: the collection is of CT series, which have no regions; omit it")
        record, task = (
            searcher.collection.record(params.image_id),
            describe_task(state.decoders, searcher.collection),
        )
        describe = partial(describe_choice, task=task)
        part = decode_source(state.decoders, searcher.collection, record, describe, params.region)
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds) as deadline:
        if params.text is not None:
            return searcher.by_text(params.text, search_request, deadline)
        if part:
            return searcher.by_image(part, search_request, deadline)
        if params.image_id:
            return searcher.by_id(params.image_id, search_request, deadline)
        return searcher.by_examples([], search_request, deadline)


def _search_by_upload(state: AppState, files: list[bytes], params: request_params.ByImage) -> Answer:
    patient = patient_key(state.searcher(params.collection).collection, params.exclude_patient)
    search_request = params.to_request(state.settings, patient)
    searcher = state.searcher(params.collection)
    queries = [_describe(state, searcher.collection, data, params) for data in files]
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds) as deadline:
        return searcher.by_examples(queries, search_request, deadline)


def _describe(
    state: AppState, collection: Collection, data: bytes, params: request_params.ByImage
) -> QueryImage:
    """Describe an upload; a series wholly, since the volumes of all files of a request would take much memory."""
    query = describe_upload(state.decoders, collection, data, params)
    if collection.profile.volume_grid is None:
        return query
    descriptor = collection.profile.load_descriptor(state.settings.device)
    with state.concurrency.slot(), query_deadline(state.settings.query_seconds):
        return query.described(descriptor)


@blueprint.post("/render")
@operation(
    "render",
    {200: "image/png"},
    body=IMAGE_FILES | SERIES_FILES,
    form=request_params.Rendering,
    query=request_params.Rendering,
    problems=(400, 413, 415, 422),
)
def post_render() -> Response:
    """Render an uploaded image as PNG, as a search would decode it; the longer side has at most 1024 pixels.

    Of a CT series in a ZIP archive it is the middle slice. Headers give the original size (Image-Size: width,height)
    and, for grey DICOM images, the window (Image-Window: center,width) and the range of values (Image-Values:
    least,greatest).
    """
    state = current_state()
    with state.concurrency.admit():
        data = request_params.uploaded_file(state.settings)
        params = request_params.request_parameters(request_params.Rendering)
        image = render_upload(state.decoders, data, params, RENDERED_SIDE)
    response = Response(image.data, mimetype="image/png")
    response.headers["Image-Size"] = f"{image.width},{image.height}"
    if image.windowing:
        center, width, least, greatest = image.windowing
        response.headers["Image-Window"] = f"{center:.10g},{width:.10g}"
        response.headers["Image-Values"] = f"{least:.10g},{greatest:.10g}"
    return response
