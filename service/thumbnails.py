"""Small pictures of a collection's images: kept for those that were sent here, made from their files for others."""

from collections.abc import Sequence

import cv2
import numpy as np
from flask import Response
from numpy.typing import NDArray

from cbir.collection import Collection, Record
from cbir.images import Image
from service.conditional import client_has, finish
from service.patience import Watch
from service.problems import SourceGone
from service.sources import image_of
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
    if not client_has(response):
        response.set_data(here.thumbnails.get(record.content_hash) or _made(here, collection, record))
    return finish(response, "the picture")


def _made(here: State, collection: Collection, record: Record) -> bytes:
    picture = collection.thumbnail(record.image_id)
    if picture is None:
        with here.gate.place():
            picture = _drawn(here, collection, record)
    here.thumbnails.put(record.content_hash, picture)
    return picture


def _drawn(here: State, collection: Collection, record: Record) -> bytes:
    """From the image's file, or else by the archive; nobody's turn is held while that is asked."""
    try:
        with here.gate.turn():
            return of(image_of(collection, record, here.settings.max_pixels, Watch()))
    except SourceGone:
        image = here.pictures.of(record, SIDE)
        if image is None:
            raise
        return of(image)
