"""Bodies without images: JSON and forms, read as a whole and limited in size. No body may be compressed."""

from flask import Flask, request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
WITH_BODY = ("POST", "PUT", "PATCH")
MAX_FORM_BYTES = 16 * 2**10
MAX_JSON_BYTES = 2**20  # parsed, JSON takes many times as much memory


def install(app: Flask) -> None:
    """Refuse compressed bodies of requests to `app`."""
    app.before_request(_refuse_compressed)


def _refuse_compressed() -> None:
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity") and request.method in WITH_BODY:
        raise UnsupportedMediaType(
            "send the body as it is, without the header Content-Encoding: it is not unpacked"
        )


def read_body(max_bytes: int, label: str) -> bytes:
    """Return the body; raise RequestEntityTooLarge, naming `label`, if it has more than `max_bytes`."""
    too_large = RequestEntityTooLarge(f"{label} may have {max_bytes} bytes at most")
    # One byte more than allowed: a body without Content-Length silently ends at the limit.
    request.max_content_length = max_bytes + 1
    try:
        data = request.get_data()
    except RequestEntityTooLarge as error:
        raise too_large from error
    if len(data) > max_bytes:
        raise too_large
    return data


def read_form() -> MultiDict[str, str]:
    """Return the fields of a form without files; raises UnsupportedMediaType and RequestEntityTooLarge."""
    if request.mimetype != FORM:
        raise UnsupportedMediaType(f"send {FORM}")
    read_body(MAX_FORM_BYTES, "a form")
    return request.form
