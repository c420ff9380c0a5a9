"""Common parts of responses: gzip, ETags (RFC 9110, section 13), pictures with their facts, bounded labels."""

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from flask import Flask, Response, request

from cbir.images.scaling import FramePixels
from cbir.ingest.decoder_tasks import RenderedImage
from cbir.search import Answer
from cbir.search.picture_facts import (
    EncodedPicture,
    EncodedPixels,
    PictureFacts,
    PixelFacts,
    PlaceFacts,
    SpacingFacts,
    WindowFacts,
)
from service.http.problems import ChangedMeanwhile

MIN_BYTES = 1024  # smaller responses fit into one packet anyway
LEVEL = 3
COMPRESSIBLE = (
    "application/dicom+json",
    "application/json",
    "application/octet-stream",  # of pixel values; files are streamed
    "application/problem+json",
    "text/plain",
    "text/html",
    "text/css",
    "text/javascript",
)


def install(app: Flask) -> None:
    """Compress the responses of `app`."""
    app.after_request(_compress)


def _compress(response: Response) -> Response:
    if response.mimetype not in COMPRESSIBLE or response.is_streamed or response.status_code in (204, 304):
        return response
    if response.cache_control.no_transform:
        return response
    response.vary.add("Accept-Encoding")
    if request.accept_encodings["gzip"] <= 0 or "Content-Encoding" in response.headers:
        return response
    data = response.get_data()
    if len(data) < MIN_BYTES:
        return response
    response.set_data(gzip.compress(data, LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    tag, _ = response.get_etag()
    if tag:
        response.set_etag(tag, weak=True)
    return response


def asks_for_etag() -> bool:
    """Return whether If-Match names ETags; `*` is true of all that exists."""
    return "If-Match" in request.headers and not request.if_match.star_tag


def check_if_match(response: Response, resource: str) -> None:
    """Raise ChangedMeanwhile if If-Match does not match the ETag of `response`; `resource` names it in the error.

    The comparison is strong: `W/"..."` matches nothing.
    """
    tag, is_weak = response.get_etag()
    if asks_for_etag() and (is_weak or not request.if_match.is_strong(tag or "")):
        raise ChangedMeanwhile(f"{resource} does not match If-Match; get it again")


def picture_response(etag: str, render: Callable[[Response], None]) -> Response:
    """Return a picture, or 304 if the client has it; raises ChangedMeanwhile as `check_if_match` does.

    `render` sets the data, and the media type if it is not PNG. A picture is revalidated each time, so that a deleted
    image disappears from the page too.
    """
    response = Response(mimetype="image/png")
    response.set_etag(etag)
    response.headers["Cache-Control"] = "private, no-cache"
    if not request.if_none_match.contains_weak(etag):
        render(response)
    return make_conditional(response, "the picture")


def make_conditional(response: Response, resource: str) -> Response:
    """Return `response`, or 304 if the client has it; raises ChangedMeanwhile as `check_if_match` does."""
    try:
        check_if_match(response, resource)
    except ChangedMeanwhile:
        response.close()
        raise
    # Without If-Match, which is checked: Werkzeug would answer 412 to `*`, and pass over If-None-Match.
    response.make_conditional(
        {name: value for name, value in request.environ.items() if name != "HTTP_IF_MATCH"}
    )
    return response


def set_image_headers(response: Response, image: RenderedImage) -> None:
    """Set Image-Size and -Frames, and where they are known Image-Window, -Values, -Spacing and -Modality."""
    headers = {"Image-Size": f"{image.width},{image.height}", "Image-Frames": str(image.frames)}
    if image.windowing:
        center, width, least, greatest = image.windowing
        headers["Image-Window"] = f"{center:.10g},{width:.10g}"
        headers["Image-Values"] = f"{least:.10g},{greatest:.10g}"
    if image.spacing:
        rows, columns = image.spacing
        headers["Image-Spacing"] = f"{rows:.10g},{columns:.10g}"
    if image.modality.isalnum() and image.modality.isascii():
        headers["Image-Modality"] = image.modality
    response.headers.update(headers)


PIXEL_VALUES = "application/octet-stream"


def set_pixels(response: Response, pixels: FramePixels) -> None:
    """Make pixel values the body of a response, and what they are its header Image-Facts."""
    response.mimetype = PIXEL_VALUES
    response.set_data(pixels.data)
    facts = pixel_facts(pixels).model_dump(mode="json")
    response.headers["Image-Facts"] = json.dumps(facts, separators=(",", ":"))  # in ASCII


MAX_ANSWER_LABELS = 4 * 2**20  # bytes of JSON
LEFT_OUT = "labels of {} results are left out, since an answer has at most {} MiB of labels"
Row = TypeVar("Row")


class Labelled(Protocol):
    """Image of an answer."""

    labels: dict[str, str]
    labels_left_out: bool


class LabelBudget:
    """Bytes of labels that an answer may still have."""

    def __init__(self) -> None:
        self._left = MAX_ANSWER_LABELS

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels fit; then they count."""
        size = len(json.dumps(labels, ensure_ascii=False).encode(errors="surrogatepass"))
        if size > self._left:
            return False
        self._left -= size
        return True

    def leave_out(self, images: Iterable[Labelled]) -> int:
        """Leave out the labels of those images that do not fit, in order, and return their number."""
        count = 0
        for image in images:
            if image.labels_left_out or not self.takes(image.labels):
                image.labels, image.labels_left_out = {}, True
                count += 1
        return count

    def bounded(self, answer: Answer) -> Answer:
        """Return the answer without the labels that do not fit, and with a note if there are any."""
        before = answer.before.results if answer.before else []
        if count := self.leave_out([*answer.results, *before]):
            note = LEFT_OUT.format(count, MAX_ANSWER_LABELS // 2**20)
            answer.rerank = answer.rerank.model_copy(update={"notes": (*answer.rerank.notes, note)})
        return answer


def page_that_fits(rows: Sequence[Row], labels_of: Callable[[Row], Mapping[str, str]]) -> list[Row]:
    """Return the first rows of a page whose labels fit into an answer, at least one; the next page has the others."""
    budget = LabelBudget()
    count = next((n for n, row in enumerate(rows) if not budget.takes(labels_of(row))), len(rows))
    return list(rows[: max(count, 1)])


def _image_facts(image: RenderedImage | FramePixels) -> dict[str, Any]:
    windowing, spacing = image.windowing, image.spacing
    return {
        "frames": image.frames,
        "window": WindowFacts(center=windowing.center, width=windowing.width) if windowing else None,
        "least": windowing.least if windowing else None,
        "greatest": windowing.greatest if windowing else None,
        "spacing": SpacingFacts(rows=spacing[0], columns=spacing[1]) if spacing else None,
        "modality": image.modality,
    }


def picture_facts(image: RenderedImage) -> PictureFacts:
    """Return what is known of a rendered image."""
    return PictureFacts(image_width=image.width, image_height=image.height, **_image_facts(image))


def pixel_facts(pixels: FramePixels) -> PixelFacts:
    """Return what the pixel values of a frame are."""
    place = PlaceFacts.model_validate(pixels.place, from_attributes=True) if pixels.place else None
    same = (
        "type", "width", "height", "slope", "intercept", "unit", "inverted", "linear", "exact", "photometric",
        "image_width", "image_height", "frame",
    )  # fmt: skip
    values: dict[str, Any] = {name: getattr(pixels, name) for name in same}
    return PixelFacts(**values, **_image_facts(pixels), region=list(pixels.region), place=place)


def encode_picture(image: RenderedImage) -> EncodedPicture:
    """Return a rendered image as an answer holds it."""
    return EncodedPicture(data=_base64(image.data), facts=picture_facts(image))


def encode_pixels(pixels: FramePixels) -> EncodedPixels:
    """Return pixel values as an answer holds them."""
    return EncodedPixels(data=_base64(pixels.data), facts=pixel_facts(pixels))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
