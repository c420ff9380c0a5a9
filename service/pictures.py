"""Images of the collection large enough to look at, made from their files when asked for."""

from pathlib import Path
from typing import Annotated

import cv2
from flask import Blueprint, Response, request

from cbir.collection import Collection, Record, originals
from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, Region, crop, read
from cbir.search import query_frame
from service import asked
from service.api_images import InCollection
from service.operations import operation
from service.problems import SourceGone
from service.state import State, state
from service.thumbnails import encode, shrink

blueprint = Blueprint("pictures", __name__, url_prefix="/v1/images")

SIDE = 1024  # pixels, the longer one


class Shown(InCollection):
    """region: x,y,width,height in pixels of the image, to see that part alone."""

    region: Annotated[Region | None, asked.Numbers] = None


@blueprint.get("/<image_id>/picture")
@operation(
    "picture",
    {200: "image/png", 304: None},
    query=Shown,
    headers=("If-None-Match",),
    problems=(404, 410, 422),
)
def picture(image_id: str) -> Response:
    """A PNG, its longer side at most 1024 pixels; where only the thumbnail was kept, that one.

    A region is cut from the image's file at full resolution; where the file is gone, there is none.
    """
    here = state()
    wanted = asked.query(Shown)
    collection = here.searcher(wanted.collection).collection
    record = collection.record(image_id)
    response = Response()
    place = "-".join(map(str, wanted.region or ()))
    response.set_etag(f"{record.content_hash}-{SIDE}{place and '-'}{place}")
    response.headers["Cache-Control"] = (
        "private, no-cache"  # so that a deleted image is gone from the page too
    )
    if not request.if_none_match.contains_weak(response.get_etag()[0] or ""):
        data, response.mimetype = _drawn(here, collection, record, wanted.region)
        response.set_data(data)
    response.make_conditional(request)
    return response


def part(here: State, collection: Collection, image_id: str, region: Region) -> Image:
    """A region of an image, from its file; raises NotFound, SourceGone, and InvalidInput for one outside of it."""
    return crop(_read(collection, collection.record(image_id), here.settings.max_pixels), region)


def _drawn(here: State, collection: Collection, record: Record, region: Region | None) -> tuple[bytes, str]:
    """The picture and its media type."""
    with here.gate.place(), here.gate.turn():
        try:
            image = _read(collection, record, here.settings.max_pixels)
        except SourceGone:
            small = None if region else collection.thumbnail(record.image_id)
            if small is None:
                raise
            return small, "image/jpeg"
        image = crop(image, region) if region else image
        return encode(shrink(image.pixels, SIDE), ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1]), "image/png"


def _read(collection: Collection, record: Record, max_pixels: int) -> Image:
    """The image a record is of; raises SourceGone where its file no longer shows it."""
    path = originals.path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        raise SourceGone("the file of this image is not where it was when it was indexed")
    try:
        image = query_frame(read(path, limits=Limits(pixels=max_pixels)), record.frame, "the file")
    except UnreadableImage as error:
        raise SourceGone("the file of this image can no longer be read as an image") from error
    if image.content_hash != record.content_hash:
        raise SourceGone("the file of this image shows another picture than when it was indexed")
    return image
