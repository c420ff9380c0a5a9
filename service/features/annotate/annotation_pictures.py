"""Pictures of the images to judge, in a window that both images of a pair share."""

from functools import partial
from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field, FiniteFloat

from cbir.images.image import Window, Windowing
from cbir.ingest.decoder_tasks import ImageChoice, RenderedImage, render_in_window
from cbir.store import Collection, Record
from service.collections.app_state import AppState, current_state
from service.collections.image_sources import decode_source
from service.http import request_params
from service.http.operations import operation
from service.http.problems import SourceGone
from service.http.request_params import Numbers
from service.http.responses import picture_response
from service.http.timeouts import Deadline
from service.routes.image_routes import ImageIdInPath

blueprint = Blueprint("annotate_pictures", __name__)

MIN_SIDE, MAX_SIDE = 32, 1280  # pixels
EIGHT_BIT_WINDOW = Windowing(127.5, 255.0, 0.0, 255.0)  # of images that are not grey DICOM: pixels unchanged

Center = Annotated[FiniteFloat, Field(ge=-1e9, le=1e9)]
Width = Annotated[FiniteFloat, Field(gt=0, le=1e9)]


class AnnotationPictureParameters(request_params.Parameters):
    """Query of a picture; `window` is center,width on the scale of Image-Values, None for the image's own."""

    window: Annotated[tuple[Center, Width] | None, Numbers] = Field(
        None,
        description="Window as center,width on the scale of Image-Values; by default that of the file.",
        examples=[[40, 400]],
    )
    side: int = Field(
        MAX_SIDE,
        ge=MIN_SIDE,
        le=MAX_SIDE,
        description="Largest side of the picture in pixels.",
        examples=[256],
    )


@blueprint.get("/annotate/images/<image_id>/picture")
@operation(
    "annotation_picture",
    {200: "image/png", 304: None},
    query=AnnotationPictureParameters,
    headers=("If-None-Match",),
    problems=(404, 410, 422),
    python='httpx.get(f"{server}/annotate/images/{image_id}/picture", headers=headers).content',
)
def get_annotation_picture(image_id: ImageIdInPath) -> Response:
    """Return a PNG of the image's file, or of its thumbnail if the file is gone.

    Headers: Image-Window has the center,width of the rendering; Image-Values the min,max of the values;
    Image-Scale is "stored" for values of a DICOM file and "shown" for grey values from 0 to 255.
    """
    state, params = current_state(), request_params.query_parameters(AnnotationPictureParameters)
    window, side = params.window, params.side
    collection = state.searcher().collection
    record = collection.record(image_id)

    def render(response: Response) -> None:
        with state.concurrency.admit():
            image = _render(state, collection, record, window, side)
        response.set_data(image.data)
        _set_headers(response, image.windowing, window)

    return picture_response(f"{record.content_hash}-{side}-{window}", render)


def _render(
    state: AppState, collection: Collection, record: Record, window: Window | None, side: int
) -> RenderedImage:
    render, decoders = partial(render_in_window, side=side, window=window), state.decoders
    try:
        return decode_source(decoders, collection, record, render)
    except SourceGone:
        thumbnail = collection.thumbnail(record.image_id)
        if thumbnail is None:
            raise
    choice = ImageChoice(thumbnail, "the thumbnail", decoders.limits)
    return decoders.run(partial(render, choice), Deadline().check)


def _set_headers(response: Response, windowing: Windowing | None, window: Window | None) -> None:
    default = windowing or EIGHT_BIT_WINDOW
    center, width = window or default[:2]
    response.headers["Image-Window"] = f"{center:.10g},{width:.10g}"
    response.headers["Image-Values"] = f"{default.least:.10g},{default.greatest:.10g}"
    response.headers["Image-Scale"] = "stored" if windowing else "shown"
