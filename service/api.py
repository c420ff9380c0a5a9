"""Searching, and showing what is searched with."""

import cv2
from flask import Blueprint, Response, request

from cbir.errors import InvalidInput
from cbir.images.thumbnail import encode, shrink
from cbir.search import Answer
from service import asked, metrics, pictures
from service.access.audit import about
from service.links import of_hit
from service.operations import FILE, operation
from service.patience import Watch
from service.state import state

blueprint = Blueprint("api", __name__, url_prefix="/v1")

RENDERED_SIDE = 1024  # pixels


@blueprint.post("/search")
@operation(
    "search",
    {200: Answer},
    body={
        asked.JSON: asked.ById,
        "image/*": FILE,
        "application/dicom": FILE,
        "application/octet-stream": FILE,
    },
    form=asked.ByImage,
    several_files=True,
    query=asked.ByImage,
    problems=(400, 404, 410, 413, 415, 422),
)
def search() -> Response:
    """Images like the one sent or named.

    The image goes into the field `image` of a form, several times for several examples, or is the body itself;
    images of the collection are named in a JSON body, and a region of one is cut from its file at full resolution.
    Parameters may stand in the query string, in the form or in the JSON. With several examples or with `feedback`
    the answer is learnt from them; images judged relevant then come first, those judged not relevant last. Examples
    are left out of the answer.
    """
    here = state()
    named = None
    with here.gate.place():
        if request.mimetype == asked.JSON:
            by_id = asked.parameters(asked.ById)
            wanted = by_id.request(here.settings)
            if by_id.region and not by_id.image_id:
                raise InvalidInput("region: is of image_id, which is missing")
            with here.gate.turn():
                searcher, watch = here.searcher(by_id.collection), Watch()
                if by_id.image_id and by_id.region:
                    part = pictures.part(here, searcher.collection, by_id.image_id, by_id.region, watch)
                    answer = searcher.by_image(part, wanted, watch)
                elif by_id.image_id:
                    answer = searcher.by_id(by_id.image_id, wanted, watch)
                else:
                    answer = searcher.by_examples([], wanted, watch)
            name, named = by_id.collection, by_id.image_id
        else:
            files = asked.example_uploads(here.settings)
            by_image = asked.parameters(asked.ByImage)
            wanted = by_image.request(here.settings)
            with here.gate.turn():
                searcher, watch = here.searcher(by_image.collection), Watch()
                images = [asked.image(here.settings, data, by_image, watch) for data in files]
                answer = searcher.by_examples(images, wanted, watch)
            name = by_image.collection
    metrics.observe_stages(answer.timings_ms)
    if name:
        for hit in answer.results:
            hit.links = of_hit(hit, name)
    about([named or answer.query.image_id, *wanted.examples, *(hit.image_id for hit in answer.results)])
    return Response(answer.model_dump_json(), mimetype="application/json")


@blueprint.post("/render")
@operation(
    "render",
    {200: "image/png"},
    body={"image/*": FILE, "application/dicom": FILE, "application/octet-stream": FILE},
    form=asked.Rendering,
    query=asked.Rendering,
    problems=(400, 413, 415, 422),
)
def render() -> Response:
    """The image sent as a PNG, as it is decoded for a search, its longer side at most 1024 pixels.

    Headers say its own size (Image-Size: width,height), and of grey DICOM images the window (Image-Window:
    center,width) and the values there are (Image-Values: least,greatest).
    """
    here = state()
    with here.gate.place():
        data = asked.upload(here.settings)
        wanted = asked.parameters(asked.Rendering)
        with here.gate.turn():
            image = asked.image(here.settings, data, wanted, Watch())
            picture = encode(shrink(image.pixels, RENDERED_SIDE), ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1])
    response = Response(picture, mimetype="image/png")
    response.headers["Image-Size"] = f"{image.width},{image.height}"
    if image.windowing:
        center, width, least, greatest = image.windowing
        response.headers["Image-Window"] = f"{center:.10g},{width:.10g}"
        response.headers["Image-Values"] = f"{least:.10g},{greatest:.10g}"
    return response
