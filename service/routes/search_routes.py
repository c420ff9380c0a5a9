"""Endpoints POST /v1/search, /v1/search/batch and /v1/render."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from flask import Blueprint, Response, request
from pydantic import ConfigDict, Field

from cbir.errors import CbirError, InvalidInput, QueryCancelled
from cbir.search import Answer
from cbir.search import example_values as example
from cbir.search.search_options import MAX_BATCH
from service.access.auth import count_request
from service.access.caller import logged_public_text
from service.client.messages import BatchAnswers, BatchItem, ProblemDetails
from service.collections.app_state import AppState, current_state
from service.collections.uploads import pixels_of_upload, render_upload
from service.http import request_params
from service.http.operations import IMAGE_FILES, SERIES_FILES, json_response, operation
from service.http.problems import problem_details
from service.http.request_bodies import uploaded_examples, uploaded_file, uploaded_files
from service.http.request_params import Pixels, Rendering, Side
from service.http.responses import PIXEL_VALUES, LabelBudget, set_image_headers, set_pixels
from service.http.search_kinds import check_batch, check_search
from service.http.search_parameters import ByImage, SearchBody, SearchParameters
from service.routes.image_routes import CollectionParameters
from service.routes.run_search import search_by_id, search_by_upload
from service.routes.search_hooks import search_hooks
from service.routes.search_includes import check_batch_include

blueprint = Blueprint("api", __name__, url_prefix="/v1")

RENDERED_SIDE = 1024  # pixels
RESULTS = 10  # times max_results: most results of a batch
SHARE = 0.8  # of request_seconds, after which no further query of a batch is begun

Query = Callable[[], Answer]


@blueprint.post("/search")
@operation(
    "search",
    {200: Answer},
    body={request_params.JSON: SearchBody, **IMAGE_FILES, **SERIES_FILES},
    form=ByImage,
    several_files=True,
    query=ByImage,
    problems=(400, 404, 410, 413, 415, 422, 504),
    python='client.search("query.png", k=5)',
)
def post_search() -> Response:
    """Search for images similar to an uploaded or indexed one.

    Send the image in the form field `image` (repeat it for several examples) or as the body itself. Name images of
    the collection in a JSON body; a region of one is cut from its file at full resolution. A JSON body below
    /v1/collections/NAME is one of the kinds of `SearchBody`, without the fields of another. Parameters may be in the
    query string, in the form or in the JSON. Re-rankers and their `parameters` are listed by `rerankers`; the
    response reports those that were used. With several examples or with `feedback` the ranking is learned from them,
    by `feedback` or another method that takes several examples; images judged relevant then come first, those judged
    not relevant last. Examples are excluded from the results. A collection whose encoder has a text tower is searched
    by `text` in a JSON body; scores are then the cosines of text and images, and `rerank` is left out or `none`.
    With `anywhere` a `region` is compared with every place of the images, and `match` says where one is like it.
    Vectors that were computed elsewhere with the collection's descriptor are sent as `vector` in a JSON body.
    In a collection of CT series every file is a series: a ZIP archive of its DICOM slices, or a NIfTI volume.
    """
    state = current_state()
    params: SearchBody | ByImage
    with state.concurrency.admit():
        if request.mimetype == request_params.JSON:
            params = request_params.request_parameters(SearchBody, check_search)
            answer = search_by_id(state, params)
        else:
            files = uploaded_examples(state.settings)
            params = request_params.request_parameters(ByImage)
            answer = search_by_upload(state, files, params)
    response = json_response(LabelBudget().bounded(answer))
    for hook in search_hooks():
        hook.note_response(response, answer, params)
    return response


class BatchSearch(CollectionParameters):
    """Queries of a batch."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"queries": [{"image_id": example.IMAGE_ID, "k": 5}, {"examples": [example.OTHER_IMAGE_ID]}]}
            ]
        }
    )

    queries: Annotated[list[SearchBody], Field(min_length=1, max_length=MAX_BATCH)] = Field(
        description=f"1 to {MAX_BATCH} queries, each with the fields of a JSON body of `search`."
    )


@blueprint.post("/search/batch")
@operation(
    "search_batch",
    {200: BatchAnswers},
    body={request_params.JSON: BatchSearch},
    form=ByImage,
    several_files=True,
    query=ByImage,
    python='client.search_batch(["query.png"], k=5)',
)
def post_search_batch() -> Response:
    """Search with each of several images, ids or vectors, and return an answer or a problem for each.

    Send queries as JSON, each with the fields of `search`, or files in the form field `image`, each of which is a
    query with the other fields of the form, or of the address. A query that fails, by an unreadable image, an
    unknown id or its time limit, has problem details in place of an answer and does not affect the others. Each
    counts as a request for the rate limit. k x group_size of all queries together is at most ten times the
    setting `max_results`. A request that is malformed as a whole is refused.
    """
    state = current_state()
    with state.concurrency.admit():
        if request.mimetype == request_params.JSON:
            batch = request_params.request_parameters(BatchSearch, check_batch)
            params: Sequence[SearchParameters] = batch.queries
            for each in batch.queries:
                each.collection = each.collection or batch.collection
            queries: list[Query] = [partial(search_by_id, state, each) for each in batch.queries]
        else:
            files = uploaded_files(state.settings, allow_empty=True)
            if len(files) > MAX_BATCH:
                raise InvalidInput(f"image: at most {MAX_BATCH} files, not {len(files)}")
            by_image = request_params.request_parameters(ByImage)
            check_batch_include(by_image)
            params = [by_image] * len(files)
            queries = [partial(search_by_upload, state, [data], by_image) for data in files]
        _check_total(state, params)
        items = _run(state, queries)
    return json_response(BatchAnswers(items=items))


def _check_total(state: AppState, params: Sequence[SearchParameters]) -> None:
    limit = state.settings.max_results  # of each query, which is refused by itself above it
    total, most = sum(min(each.k * each.group_size, limit) for each in params), RESULTS * limit
    if total > most:
        raise InvalidInput(
            f"k: {len(params)} queries ask for {total} results together, and {most} are allowed; send fewer queries, "
            "or a smaller k"
        )


def _run(state: AppState, queries: Sequence[Query]) -> list[BatchItem]:
    ends = time.monotonic() + SHARE * state.settings.request_seconds
    items, budget = list[BatchItem](), LabelBudget()
    for index, query in enumerate(queries):
        try:
            if index:  # the first one is the request itself
                count_request()
                if time.monotonic() > ends:
                    raise QueryCancelled(
                        "the batch takes too long; send this query again, in a smaller batch"
                    )
            items.append(BatchItem(answer=budget.bounded(query())))
        except CbirError as error:
            details = ProblemDetails(**problem_details(error, logged_public_text(error)))
            items.append(BatchItem(problem=details))
    return items


class RenderParameters(Rendering):
    """Parts of an uploaded image, and whether as a picture or as pixel values."""

    pixels: Pixels = False
    side: Side = request_params.MAX_SIDE


@blueprint.post("/render")
@operation(
    "render",
    {200: "image/png"},
    other_media=(PIXEL_VALUES,),
    body=IMAGE_FILES | SERIES_FILES,
    form=RenderParameters,
    query=RenderParameters,
    problems=(400, 413, 415, 422),
    python='client.render("query.png")',
)
def post_render() -> Response:
    """Render an uploaded image as PNG, as a search would decode it; the longer side has at most 1024 pixels.

    Of a CT series in a ZIP archive it is the middle slice. Headers give the original size (Image-Size: width,height)
    and the number of frames of the file (Image-Frames); for grey DICOM images, the window (Image-Window:
    center,width) and the range of values (Image-Values: least,greatest); and where the file says so the millimetres
    between rows and columns (Image-Spacing) and the DICOM modality (Image-Modality). With `pixels` it is the values
    of the pixels.
    """
    state = current_state()
    with state.concurrency.admit():
        data = uploaded_file(state.settings)
        params = request_params.request_parameters(RenderParameters)
        if params.pixels:
            response = Response()
            set_pixels(response, pixels_of_upload(state.decoders, data, params, params.side))
            response.headers["Cache-Control"] = "no-store"
            return response
        image = render_upload(state.decoders, data, params, RENDERED_SIDE)
    response = Response(image.data, mimetype="image/png")
    set_image_headers(response, image)
    return response
