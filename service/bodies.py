"""Bodies that hold no image: read whole, and never more than a little."""

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

FORM = "application/x-www-form-urlencoded"
FORM_BYTES = 16 * 2**10
JSON_BYTES = 2**20  # parsed, it takes many times as much memory


def read(most: int, what: str) -> bytes:
    """The body; raises RequestEntityTooLarge where it has more than `most` bytes, announced or not."""
    too_large = RequestEntityTooLarge(f"{what} may have {most} bytes at most")
    # One byte more than allowed: a body of no announced length silently ends at the limit.
    request.max_content_length = most + 1
    try:
        data = request.get_data()
    except RequestEntityTooLarge as error:
        raise too_large from error
    if len(data) > most:
        raise too_large
    return data


def form() -> MultiDict[str, str]:
    """The fields of a form without files; raises UnsupportedMediaType and RequestEntityTooLarge."""
    if request.mimetype != FORM:
        raise UnsupportedMediaType(f"send {FORM}")
    read(FORM_BYTES, "a form")
    return request.form
