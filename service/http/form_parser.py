"""Forms with files: parsed as werkzeug does, with names of files in any encoding."""

from io import BytesIO
from typing import IO, Any

from werkzeug.datastructures import FileStorage, Headers, MultiDict
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser, MultiPartParser
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData

CHUNK_BYTES = 2**16


class AnyNameDecoder(MultipartDecoder):
    """Decoder that reads headers of parts as Latin-1 where they are not UTF-8, as some programs do."""

    def _parse_headers(self, data: bytes | bytearray) -> Headers:
        try:
            return super()._parse_headers(data)
        except UnicodeDecodeError:  # werkzeug would leave out the whole form
            return super()._parse_headers(data.decode("latin-1").encode())


class AnyNameFormParser(FormDataParser):
    """Parser of forms whose names of files may have any encoding."""

    def _parse_multipart(
        self, stream: IO[bytes], mimetype: str, content_length: int | None, options: dict[str, str]
    ) -> tuple[IO[bytes], MultiDict[str, str], MultiDict[str, FileStorage]]:
        boundary = options.get("boundary", "").encode("ascii")
        if not boundary:
            raise ValueError("missing boundary")
        decoder = AnyNameDecoder(
            boundary, max_form_memory_size=self.max_form_memory_size, max_parts=self.max_form_parts
        )
        parts: list[tuple[Field | File, BytesIO]] = []
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
        return stream, self._fields(parts), self._files(parts)

    def _append(self, part: tuple[Field | File, BytesIO], data: bytes) -> None:
        start, content = part
        content.write(data)
        limit = self.max_form_memory_size
        if isinstance(start, Field) and limit is not None and content.tell() > limit:
            raise RequestEntityTooLarge

    def _fields(self, parts: list[tuple[Field | File, BytesIO]]) -> Any:
        charset_of = MultiPartParser().get_part_charset
        return self.cls(
            [
                (start.name, content.getvalue().decode(charset_of(start.headers), "replace"))
                for start, content in parts
                if isinstance(start, Field)
            ]
        )

    def _files(self, parts: list[tuple[Field | File, BytesIO]]) -> Any:
        files = []
        for start, content in parts:
            if isinstance(start, File):
                content.seek(0)
                files.append(
                    (start.name, FileStorage(content, start.filename, start.name, headers=start.headers))
                )
        return self.cls(files)
