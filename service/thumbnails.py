"""Small pictures of a collection's images, made from their files when asked for."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import cv2
import numpy as np
from flask import Blueprint, Response, request
from numpy.typing import NDArray

from cbir.collection import Record
from cbir.errors import UnreadableImage
from cbir.images import Limits, read
from cbir.search import query_frame
from service.problems import SourceGone
from service.state import State, state

SIDE = 256  # pixels, the longer one
JPEG_QUALITY = 88
CACHE_BYTES = 64 * 2**20

Pixels = NDArray[np.uint8]


class Cache:
    """Pictures by name, those not asked for longest dropped when they exceed `most` bytes. Thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._pictures: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> bytes | None:
        """The picture of that name, if it is kept."""
        with self._lock:
            if name in self._pictures:
                self._pictures.move_to_end(name)
            return self._pictures.get(name)

    def put(self, name: str, picture: bytes) -> None:
        """Keep a picture."""
        with self._lock:
            self.size += len(picture) - len(self._pictures.pop(name, b""))
            self._pictures[name] = picture
            while self.size > self.most:
                self.size -= len(self._pictures.popitem(last=False)[1])


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
    return encode(shrink(image.pixels, SIDE), ".jpg", [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])


def blueprint() -> Blueprint:
    """The routes of thumbnails, with a cache of their own."""
    routes = Blueprint("thumbnails", __name__, url_prefix="/v1/images")
    cache = Cache(CACHE_BYTES)

    @routes.get("/<image_id>/thumbnail")
    def thumbnail(image_id: str) -> Response:
        """A JPEG, its longer side at most 256 pixels."""
        here = state()
        record = here.searcher().collection.record(image_id)
        response = Response(mimetype="image/jpeg")
        response.set_etag(f"{record.content_hash}-{SIDE}")
        # To be asked for each time, so that a deleted image is gone from the page too.
        response.headers["Cache-Control"] = "private, no-cache"
        if not request.if_none_match.contains_weak(response.get_etag()[0] or ""):
            response.set_data(cache.get(record.content_hash) or _drawn(here, record, cache))
        response.make_conditional(request)
        return response

    return routes


def _drawn(here: State, record: Record, cache: Cache) -> bytes:
    with here.gate.place(), here.gate.turn():
        picture = draw(record, here.settings.max_pixels)
    cache.put(record.content_hash, picture)
    return picture
