"""Forms with files: parsed as werkzeug does, with names of files in any encoding."""

import re
from io import BytesIO
from typing import IO, Any

from werkzeug.datastructures import FileStorage, Headers, MultiDict
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser, MultiPartParser
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData

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
