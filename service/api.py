"""Searching, and the records of images."""

from dataclasses import asdict

import cv2
from flask import Blueprint, Response, jsonify, request

from cbir.search import Links, Stopwatch
from service import asked
from service.state import state
from service.thumbnails import encode, shrink

blueprint = Blueprint("api", __name__, url_prefix="/v1")

KEPT_TO_OURSELVES = ("source", "source_stamp")
RENDERED_SIDE = 1024  # pixels


@blueprint.post("/search")
def search() -> Response:
    """Images like the one sent or named; `cbir.search.Answer` as JSON."""
    here = state()
    with here.gate.place():
        if request.mimetype == asked.JSON:
            by_id = asked.parameters(asked.ById)
            wanted = by_id.request(here.settings)
            with here.gate.turn():
                answer = here.searcher().by_id(by_id.image_id, wanted, Stopwatch())
        else:
            data = asked.upload(here.settings)
            by_image = asked.parameters(asked.ByImage)
            wanted = by_image.request(here.settings)
            with here.gate.turn():
                searcher, watch = here.searcher(), Stopwatch()
                image = asked.image(here.settings, data, by_image)
                answer = searcher.by_image(image, wanted, watch)
    return Response(answer.model_dump_json(), mimetype="application/json")


@blueprint.post("/render")
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
            image = asked.image(here.settings, data, wanted)
            picture = encode(shrink(image.pixels, RENDERED_SIDE), ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1])
    response = Response(picture, mimetype="image/png")
    response.headers["Image-Size"] = f"{image.width},{image.height}"
    if image.windowing:
        center, width, least, greatest = image.windowing
        response.headers["Image-Window"] = f"{center:.10g},{width:.10g}"
        response.headers["Image-Values"] = f"{least:.10g},{greatest:.10g}"
    return response


@blueprint.get("/images/<image_id>")
def record(image_id: str) -> Response:
    """What the collection knows of an image, but for where it was read from."""
    found = asdict(state().searcher().collection.record(image_id))
    for name in KEPT_TO_OURSELVES:
        del found[name]
    address = f"/v1/images/{image_id}"
    return jsonify(found | {"links": Links(thumbnail=f"{address}/thumbnail", image=address).model_dump()})
