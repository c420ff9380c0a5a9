"""An image to be judged, in the window that both of a pair are shown in."""

from typing import Annotated

import cv2
import numpy as np
from flask import Blueprint, Response
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, Windowing, decode
from cbir.images.bit_depth import apply_window
from cbir.images.thumbnail import encode_image, shrink
from cbir.search import select_frame
from cbir.store import Collection, Record, originals
from service.collections.app_state import AppState, current_state
from service.collections.image_sources import read_source_image
from service.http import request_params
from service.http.etag import client_has_current, make_conditional
from service.http.problems import SourceGone
from service.http.timeouts import Deadline

blueprint = Blueprint("annotate_pictures", __name__)

SIDE = 1280  # pixels, the longer one
BYTES = Windowing(127.5, 255.0, 0.0, 255.0)  # of images that are no grey DICOM: their pixels as they are

Center = Annotated[FiniteFloat, Field(ge=-1e9, le=1e9)]
Width = Annotated[FiniteFloat, Field(gt=0, le=1e9)]


class Shown(BaseModel):
    """window: center,width, in the values that the header Image-Values speaks of; None for the image's own."""

    model_config = ConfigDict(extra="forbid")

    window: Annotated[tuple[Center, Width] | None, request_params.Numbers] = None


@blueprint.get("/annotate/images/<image_id>/picture")
def picture(image_id: str) -> Response:
    """A PNG, its longer side at most 1280 pixels, of the file, or where that is gone of the thumbnail.

    Headers: Image-Window: center,width it is shown in; Image-Values: least,greatest; Image-Scale: "stored" for
    values of a DICOM file, "shown" for grey values from 0 to 255.
    """
    here, wanted = current_state(), request_params.query_parameters(Shown).window
    collection = here.searcher().collection
    record = collection.record(image_id)
    response = Response(mimetype="image/png")
    response.set_etag(f"{record.content_hash}-{SIDE}-{wanted}")
    response.headers["Cache-Control"] = "private, no-cache"
    if not client_has_current(response):
        with here.concurrency.admit(), here.concurrency.slot():
            image = _image(here, collection, record, wanted)
            pixels = shrink(image.pixels, SIDE)
            response.set_data(encode_image(pixels, ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1]))
        _tell(response, image, wanted)
    return make_conditional(response, "the picture")


def _image(
    here: AppState, collection: Collection, record: Record, wanted: tuple[float, float] | None
) -> Image:
    try:
        image = read_source_image(collection, record, here.settings.max_pixels, Deadline())
    except SourceGone:
        small = collection.thumbnail(record.image_id)
        if small is None:
            raise
        image = next(decode(small))
    if not wanted:
        return image
    if image.windowing:
        return _windowed(here, collection, record, wanted)
    center, width = wanted
    shown = apply_window(image.pixels.astype(np.float64), center - width / 2, center + width / 2)
    return Image(shown, format=image.format)


def _windowed(here: AppState, collection: Collection, record: Record, wanted: tuple[float, float]) -> Image:
    """A DICOM frame, anew from its stored values, so that no depth is lost."""
    path = originals.original_path(collection.folder, record.source) or record.source
    try:
        with open(path, "rb") as file:
            data = file.read()
        frames = decode(data, "the file", limits=Limits(pixels=here.settings.max_pixels), window=wanted)
        return select_frame(Deadline().iterate(frames), record.frame, "the file")
    except (OSError, UnreadableImage) as error:
        raise SourceGone("the file of this image can no longer be read as an image") from error


def _tell(response: Response, image: Image, wanted: tuple[float, float] | None) -> None:
    own = image.windowing or BYTES
    center, width = wanted or own[:2]
    response.headers["Image-Window"] = f"{center:.10g},{width:.10g}"
    response.headers["Image-Values"] = f"{own.least:.10g},{own.greatest:.10g}"
    response.headers["Image-Scale"] = "stored" if image.windowing else "shown"
