"""Parts of a multipart/related body (RFC 2387), the form in which STOW-RS sends instances."""

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from service.http.problems import Malformed

RELATED = "multipart/related"
DICOM = "application/dicom"
MAX_PARTS = 10_000
MAX_HEADER_BYTES = 8192


def dicom_parts(max_bytes: int) -> list[bytes]:
    """Return the DICOM files in the request's body of at most `max_bytes`.

    Raises UnsupportedMediaType, Malformed and RequestEntityTooLarge.
    """
    options = request.mimetype_params
    if request.mimetype != RELATED or options.get("type", DICOM) != DICOM:
        raise UnsupportedMediaType(
            f'send {RELATED}; type="{DICOM}"; boundary=..., with a DICOM file in each part'
        )
    boundary = options.get("boundary", "")
    if not 1 <= len(boundary) <= 70 or not boundary.isascii():
        raise Malformed("the content type must name a boundary of 1 to 70 characters (RFC 2046, 5.1.1)")
    data = request.get_data(cache=False)
    if len(data) > max_bytes:
        raise RequestEntityTooLarge
    return split_parts(data, boundary.encode())


def split_parts(data: bytes, boundary: bytes) -> list[bytes]:
    """Split a body at `boundary` and return the parts without their headers; raises Malformed."""
    pieces = (b"\r\n" + data).split(b"\r\n--" + boundary, MAX_PARTS + 1)[1:]
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise Malformed("the body must hold at least one part and its closing boundary")
    return [_content(piece) for piece in pieces[:-1]]


def _content(piece: bytes) -> bytes:
    end = piece.find(b"\r\n\r\n", 0, MAX_HEADER_BYTES)
    if end < 0:
        raise Malformed("a part of the body has no empty line after its headers")
    for line in piece[:end].split(b"\r\n"):
        name, _, value = line.partition(b":")
        media_type = value.partition(b";")[0].strip().lower()
        if name.strip().lower() == b"content-type" and media_type != DICOM.encode():
            raise UnsupportedMediaType(f"every part must be {DICOM}")
    return piece[end + 4 :]
