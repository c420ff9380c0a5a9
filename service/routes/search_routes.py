"""Endpoints POST /v1/search and POST /v1/render."""

from flask import Blueprint, Response, request

from cbir.search import Answer
from service.collections.app_state import current_state
from service.collections.uploads import pixels_of_upload, render_upload
from service.http import request_params
from service.http.operations import IMAGE_FILES, SERIES_FILES, json_response, operation
from service.http.request_bodies import uploaded_examples, uploaded_file
from service.http.request_params import Pixels, Rendering, Side
from service.http.responses import PIXEL_VALUES, LabelBudget, set_image_headers, set_pixels
from service.http.search_kinds import check_search
from service.http.search_parameters import ByImage, SearchBody
from service.routes.run_search import search_by_id, search_by_upload
from service.routes.search_hooks import search_hooks


class RenderParameters(Rendering):
    """Parts of an uploaded image, and whether as a picture or as pixel values."""

    pixels: Pixels = False
    side: Side = request_params.MAX_SIDE


blueprint = Blueprint("api", __name__, url_prefix="/v1")

RENDERED_SIDE = 1024  # pixels


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
