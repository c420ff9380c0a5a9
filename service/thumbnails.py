"""Small pictures of a collection's images: kept for those that were sent here, made from their files for others."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from flask import Response, request
from numpy.typing import NDArray

from cbir.collection import Collection, Record
from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, read
from cbir.search import query_frame
from service.problems import SourceGone
from service.state import State

SIDE = 256  # pixels, the longer one
JPEG_QUALITY = 88

Pixels = NDArray[np.uint8]


def shrink(pixels: Pixels, side: int) -> Pixels:
    """An image whose longer side has at most `side` pixels; smaller ones stay as they are."""
    height, width = pixels.shape[:2]
    longer = max(height, width)
    if longer <= side:
        return pixels
    size = max(1, round(width * side / longer)), max(1, round(height * side / longer))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def encode(pixels: Pixels, kind: str, options: Sequence[int] = ()) -> bytes:
    """A file of grey or RGB pixels; kind is ".png" or ".jpg"."""
    ordered = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    _, file = cv2.imencode(kind, ordered, options)
    return bytes(file)


def draw(record: Record, max_pixels: int) -> bytes:
    """The thumbnail of a record, a JPEG; raises SourceGone where its file no longer shows that picture."""
    path = Path(record.source)
    if not path.is_file():
        raise SourceGone("the file of this image is not where it was when it was indexed")
    try:
        image = query_frame(read(path, limits=Limits(pixels=max_pixels)), record.frame, "the file")
    except UnreadableImage as error:
        raise SourceGone("the file of this image can no longer be read as an image") from error
    if image.content_hash != record.content_hash:
        raise SourceGone("the file of this image shows another picture than when it was indexed")
    return of(image)


def of(image: Image) -> bytes:
    """The thumbnail of a picture, a JPEG."""
    return encode(shrink(image.pixels, SIDE), ".jpg", [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])


def answer(here: State, collection: Collection, image_id: str) -> Response:
    """The response with an image's thumbnail, or with nothing where the client has it; raises SourceGone."""
    record = collection.record(image_id)
    response = Response(mimetype="image/jpeg")
    response.set_etag(f"{record.content_hash}-{SIDE}")
    # To be asked for each time, so that a deleted image is gone from the page too.
    response.headers["Cache-Control"] = "private, no-cache"
    if not request.if_none_match.contains_weak(response.get_etag()[0] or ""):
        response.set_data(here.thumbnails.get(record.content_hash) or _made(here, collection, record))
    response.make_conditional(request)
    return response


def _made(here: State, collection: Collection, record: Record) -> bytes:
    picture = collection.thumbnail(record.image_id)
    if picture is None:
        with here.gate.place(), here.gate.turn():
            picture = draw(record, here.settings.max_pixels)
    here.thumbnails.put(record.content_hash, picture)
    return picture
