"""Answers with thumbnails of a collection's images: kept for those that were sent here, made of the others' files."""

from flask import Response

from cbir.images.thumbnail import SIDE, thumbnail
from cbir.store import Collection, Record
from service.conditional import client_has, finish
from service.patience import Watch
from service.problems import SourceGone
from service.sources import image_of
from service.state import State


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
            return thumbnail(image_of(collection, record, here.settings.max_pixels, Watch()))
    except SourceGone:
        image = here.pictures.of(record, SIDE)
        if image is None:
            raise
        return thumbnail(image)
