"""Bodies in which STOW-RS sends instances: multipart/related (RFC 2387), or a single file (PS3.18, 8.6.1.2)."""

from email.message import Message

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from service.http.problems import Malformed

RELATED = "multipart/related"
DICOM = "application/dicom"
SINGLE = (DICOM, "application/octet-stream")  # the second for clients that know no other type of files
MAX_PARTS = 10_000
MAX_HEADER_BYTES = 8192


def dicom_parts(max_bytes: int) -> list[bytes]:
    """Return the DICOM files in the request's body of at most `max_bytes`.

    Raises UnsupportedMediaType, Malformed and RequestEntityTooLarge.
    """
    if request.mimetype in SINGLE:
        return [_body(max_bytes)]
    kind, boundary = _related_parameters()
    if request.mimetype != RELATED or kind != DICOM:
        raise UnsupportedMediaType(
            f'send {RELATED}; type="{DICOM}"; boundary=..., with a DICOM file in each part, or one file as {DICOM}'
        )
    if not 1 <= len(boundary) <= 70 or not boundary.isascii():
        raise Malformed("the content type must name a boundary of 1 to 70 characters (RFC 2046, 5.1.1)")
    return split_parts(_body(max_bytes), boundary.encode())


def _related_parameters() -> tuple[str, str]:
    """Return the parameters type and boundary of the content type.

    Senders leave out the quotes around application/dicom, which werkzeug then reads up to the slash.
    """
    header = Message()
    header["Content-Type"] = request.headers.get("Content-Type", "").replace("\n", " ").replace("\r", " ")
    kind, boundary = (
        header.get_param(name, default) for name, default in (("type", DICOM), ("boundary", ""))
    )
    return str(kind).strip().lower(), str(boundary)


def _body(max_bytes: int) -> bytes:
    data = request.get_data(cache=False)
    if len(data) > max_bytes:
        raise RequestEntityTooLarge
    return data


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
