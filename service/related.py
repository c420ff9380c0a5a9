"""The parts of a multipart/related body (RFC 2387), as STOW-RS sends its instances."""

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from service.problems import Malformed

RELATED = "multipart/related"
DICOM = "application/dicom"
MOST_PARTS = 10_000
MOST_HEADER_BYTES = 8192


def instances(most_bytes: int) -> list[bytes]:
    """The DICOM files in the request; raises UnsupportedMediaType, Malformed and RequestEntityTooLarge."""
    options = request.mimetype_params
    if request.mimetype != RELATED or options.get("type", DICOM) != DICOM:
        raise UnsupportedMediaType(
            f'send {RELATED}; type="{DICOM}"; boundary=..., with a DICOM file in each part'
        )
    boundary = options.get("boundary", "")
    if not 1 <= len(boundary) <= 70 or not boundary.isascii():
        raise Malformed("the content type names no boundary of 1 to 70 characters (RFC 2046, 5.1.1)")
    data = request.get_data(cache=False)
    if len(data) > most_bytes:
        raise RequestEntityTooLarge
    return parts(data, boundary.encode())


def parts(data: bytes, boundary: bytes) -> list[bytes]:
    """What stands between the boundaries, without the headers of each part; raises Malformed."""
    pieces = (b"\r\n" + data).split(b"\r\n--" + boundary, MOST_PARTS + 1)[1:]
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise Malformed("the body does not hold one part or more, and its closing boundary")
    return [_content(piece) for piece in pieces[:-1]]


def _content(piece: bytes) -> bytes:
    end = piece.find(b"\r\n\r\n", 0, MOST_HEADER_BYTES)
    if end < 0:
        raise Malformed("a part of the body has no empty line after its headers")
    for line in piece[:end].split(b"\r\n"):
        name, _, value = line.partition(b":")
        kind = value.partition(b";")[0].strip().lower()
        if name.strip().lower() == b"content-type" and kind != DICOM.encode():
            raise UnsupportedMediaType(f"every part must be {DICOM}")
    return piece[end + 4 :]
