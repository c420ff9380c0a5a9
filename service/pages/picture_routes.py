"""Pictures of collection images for viewing, rendered from their files on request."""

from functools import partial
from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field

from cbir.errors import InvalidInput
from cbir.images import Region
from cbir.ingest.decoder_tasks import RenderedImage, read_pixels, render_choice, render_in_window
from cbir.search import example_values as example
from cbir.store import Collection, Record
from service.collections.app_state import AppState, current_state
from service.collections.image_sources import decode_source
from service.http import request_params
from service.http.operations import operation
from service.http.problems import SourceGone
from service.http.request_params import Numbers, Pixels, Side, WindowParameter
from service.http.responses import PIXEL_VALUES, picture_response, set_image_headers, set_pixels
from service.routes.image_routes import CollectionParameters, ImageIdInPath

blueprint = Blueprint("pictures", __name__, url_prefix="/v1/images")

MAX_SIDE = 1024  # pixels


class PictureParameters(CollectionParameters):
    """Query of a picture."""

    region: Annotated[Region | None, Numbers] = Field(
        default=None,
        description="Part of the image, as x,y,width,height in pixels from its upper left corner; by default all of "
        "it.",
        examples=[[40, 60, 120, 80]],
    )
    window: WindowParameter = None
    pixels: Pixels = False
    side: Side = request_params.MAX_SIDE


@blueprint.get("/<image_id>/picture")
@operation(
    "picture",
    {200: "image/png", 304: None},
    other_media=("image/jpeg", PIXEL_VALUES),
    query=PictureParameters,
    headers=("If-None-Match",),
    problems=(404, 410, 412, 422),
    python=f'client.picture("{example.IMAGE_ID}")',
)
def get_picture(image_id: ImageIdInPath) -> Response:
    """Return an image as PNG of at most 1024 pixels a side.

    It is rendered from the image's file; without the file it is the thumbnail, a JPEG, or comes from the archive. A
    region is cut from the file at full resolution, and is not available without the file; nor is a window. Headers
    of a picture from the file are those of `/v1/render`. With `pixels` it is the values of the file's pixels.
    """
    state = current_state()
    params = request_params.query_parameters(PictureParameters)
    collection = state.searcher(params.collection).collection
    record = collection.record(image_id)
    if params.pixels and params.window:
        raise InvalidInput("window: pixel values are shown in any window; omit it")
    part = "-".join(
        map(str, [*(params.region or ()), *(("window", *params.window) if params.window else ())])
    )

    def render(response: Response) -> None:
        if params.pixels:
            task = partial(read_pixels, side=params.side)
            with state.concurrency.admit():
                set_pixels(response, decode_source(state.decoders, collection, record, task, params.region))
            return
        picture = _render_picture(state, collection, record, params)
        if isinstance(picture, bytes):
            response.mimetype = "image/jpeg"
            response.set_data(picture)
            response.set_etag(f"{etag}-thumbnail")  # so that browsers ask again for the picture of the file
        else:
            response.set_data(picture.data)
            set_image_headers(response, picture)

    form = f"pixels-{params.side}" if params.pixels else str(MAX_SIDE)
    etag = f"{record.content_hash}-{form}{part and '-'}{part}"
    return picture_response(etag, render)


def _render_picture(
    state: AppState, collection: Collection, record: Record, params: PictureParameters
) -> RenderedImage | bytes:
    """Return a picture from the file or the archive, or else the thumbnail, a JPEG."""
    render = partial(render_choice, side=MAX_SIDE)
    windowed = partial(render_in_window, side=MAX_SIDE, window=params.window) if params.window else render
    with state.concurrency.admit():
        try:
            return decode_source(state.decoders, collection, record, windowed, params.region)
        except SourceGone:
            if params.region or params.window:
                raise
            if thumbnail := collection.thumbnail(record.image_id):
                return thumbnail
            from_archive = state.archive_thumbnails.render(record, MAX_SIDE, render)
            if from_archive is None:
                raise
            return from_archive
