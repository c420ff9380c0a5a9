"""Images of the collection large enough to look at, made from their files when asked for."""

from typing import Annotated

import cv2
from flask import Blueprint, Response

from cbir.images import Image, Region, crop
from cbir.images.thumbnail import encode, shrink
from cbir.store import Collection, Record
from service import asked
from service.api_images import InCollection
from service.conditional import client_has, finish
from service.operations import operation
from service.patience import Watch
from service.problems import SourceGone
from service.sources import image_of
from service.state import State, state

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
    problems=(404, 410, 412, 422),
)
def picture(image_id: str) -> Response:
    """A PNG, its longer side at most 1024 pixels; where only the thumbnail was kept, that one; else the archive's.

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
    if not client_has(response):
        data, response.mimetype = _drawn(here, collection, record, wanted.region)
        response.set_data(data)
    return finish(response, "the picture")


def part(here: State, collection: Collection, image_id: str, region: Region, watch: Watch) -> Image:
    """A region of an image, from its file; raises NotFound, SourceGone, and InvalidInput for one outside of it."""
    return crop(image_of(collection, collection.record(image_id), here.settings.max_pixels, watch), region)


def _drawn(here: State, collection: Collection, record: Record, region: Region | None) -> tuple[bytes, str]:
    """The picture and its media type; nobody's turn is held while an archive is asked."""
    with here.gate.place():
        try:
            with here.gate.turn():
                image = image_of(collection, record, here.settings.max_pixels, Watch())
                return _png(crop(image, region) if region else image)
        except SourceGone:
            if region:
                raise
            if small := collection.thumbnail(record.image_id):
                return small, "image/jpeg"
            from_archive = here.pictures.of(record, SIDE)
            if from_archive is None:
                raise
            return _png(from_archive)


def _png(image: Image) -> tuple[bytes, str]:
    return encode(shrink(image.pixels, SIDE), ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1]), "image/png"
