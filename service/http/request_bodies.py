"""Bodies of requests: JSON and forms, uploaded images, and the DICOM files of STOW-RS.

They are read as a whole and limited in size; none may be compressed.
"""

import re
from email.message import Message
from io import BytesIO
from typing import IO, Any

from flask import Flask, request
from werkzeug.datastructures import FileStorage, Headers, MultiDict
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType
from werkzeug.formparser import FormDataParser, MultiPartParser
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData

from cbir.errors import InvalidInput
from cbir.search import MAX_EXAMPLES
from cbir.settings import Settings
from service.http.problems import Malformed

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


CHUNK_BYTES = 2**16
FILE_FIELD = "image"
NOT_TEXT = re.compile(rb"[\0-\x08\x0e-\x1f]")  # in every image file of a binary format
Part = tuple[Field | File, BytesIO]


class AnyNameDecoder(MultipartDecoder):
    """Decoder that reads headers of parts as Latin-1 where they are not UTF-8, as some programs do."""

    def _parse_headers(self, data: bytes | bytearray) -> Headers:
        try:
            return super()._parse_headers(data)
        except UnicodeDecodeError:  # werkzeug would leave out the whole form
            return super()._parse_headers(data.decode("latin-1").encode())


class AnyNameFormParser(FormDataParser):
    """Parser of forms whose names of files may have any encoding, or be left out (RFC 7578, 4.2)."""

    def _parse_multipart(
        self, stream: IO[bytes], mimetype: str, content_length: int | None, options: dict[str, str]
    ) -> tuple[IO[bytes], MultiDict[str, str], MultiDict[str, FileStorage]]:
        boundary = options.get("boundary", "").encode("ascii")
        if not boundary:
            raise ValueError("missing boundary")
        decoder = AnyNameDecoder(
            boundary, max_form_memory_size=self.max_form_memory_size, max_parts=self.max_form_parts
        )
        parts: list[Part] = []
        ended = False
        while not ended:
            chunk = stream.read(CHUNK_BYTES)
            decoder.receive_data(chunk or None)
            while not isinstance(event := decoder.next_event(), NeedData):
                if isinstance(event, Field | File):
                    parts.append((event, BytesIO()))
                elif isinstance(event, Data):
                    self._append(parts[-1], event.data)
                elif isinstance(event, Epilogue):
                    ended = True
                    break
        parts = [_as_file(part) for part in parts]
        return stream, self._fields(parts), self._files(parts)

    def _append(self, part: Part, data: bytes) -> None:
        start, content = part
        content.write(data)
        limit = self.max_form_memory_size
        is_long = limit is not None and content.tell() > limit
        if is_long and isinstance(start, Field) and not isinstance(_as_file(part)[0], File):
            raise RequestEntityTooLarge

    def _fields(self, parts: list[Part]) -> Any:
        charset_of = MultiPartParser().get_part_charset
        return self.cls(
            [
                (start.name, content.getvalue().decode(charset_of(start.headers), "replace"))
                for start, content in parts
                if isinstance(start, Field)
            ]
        )

    def _files(self, parts: list[Part]) -> Any:
        files = []
        for start, content in parts:
            if isinstance(start, File):
                content.seek(0)
                files.append(
                    (start.name, FileStorage(content, start.filename, start.name, headers=start.headers))
                )
        return self.cls(files)


def _as_file(part: Part) -> Part:
    """Return a part as a file if it has the content of one, but no name of a file."""
    start, content = part
    if isinstance(start, Field) and start.name == FILE_FIELD and NOT_TEXT.search(content.getbuffer()):
        return File(start.name, "", start.headers), content
    return part


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


BINARY_TYPES = ("application/dicom", "application/gzip", "application/octet-stream", "application/zip")


def uploaded_examples(settings: Settings) -> list[bytes]:
    """Return the image files of a search, at most MAX_EXAMPLES; `settings` limit their size."""
    files = uploaded_files(settings)
    if len(files) > MAX_EXAMPLES:
        raise InvalidInput(f"image: at most {MAX_EXAMPLES} files, not {len(files)}")
    return files


def uploaded_file(settings: Settings) -> bytes:
    """Return the only image file of the request, in the form field `image` or as the body; not empty."""
    files = uploaded_files(settings)
    if len(files) != 1:
        raise InvalidInput(f"image: exactly one file is needed in this field, not {len(files)}")
    return files[0]


def uploaded_files(settings: Settings, allow_empty: bool = False) -> list[bytes]:
    """Return the image files of the request; raises RequestEntityTooLarge above the limit of `settings`.

    Raises InvalidInput for an empty file unless `allow_empty`.
    """
    if request.mimetype == MULTIPART:
        files = _file_parts()
    elif request.mimetype in BINARY_TYPES or request.mimetype.startswith("image/"):
        files = [request.get_data(cache=False)]
    else:
        raise UnsupportedMediaType(
            "send an image as multipart/form-data (field image), or as the body with content type image/*, "
            'application/dicom, application/zip or application/octet-stream; or application/json with an "image_id" '
            "to search with"
        )
    if not allow_empty and not all(files):
        raise InvalidInput("the image sent is empty")
    if sum(map(len, files)) > settings.max_upload_bytes:
        raise RequestEntityTooLarge
    return files


def _file_parts() -> list[bytes]:
    if unexpected := sorted(set(request.files) - {"image"}):
        raise InvalidInput(f"{unexpected[0]}: there is no such file field; send the image in the field image")
    files = request.files.getlist("image")
    if not files and "image" in request.form:
        raise InvalidInput("image: must be sent as a file, for instance with curl -F image=@FILE")
    if not files:
        raise InvalidInput("image: a file is needed in this field")
    return [file.read() for file in files]
