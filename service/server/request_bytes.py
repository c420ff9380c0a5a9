"""Bytes of one request that have arrived, and the end of a chunked body among them."""

from collections import deque

from werkzeug.exceptions import RequestEntityTooLarge

PIECE_BYTES = 64 * 2**10


class RequestBytes:
    """Head and body of one request, for gunicorn's parser, which reads them as from a socket."""

    def __init__(self, head: bytes) -> None:
        self.cut = False  # the body is larger than allowed, and its end is missing
        self.size = 0
        self._pieces: deque[memoryview] = deque()
        self._last_piece = bytearray()
        self.append(head)

    def append(self, data: bytes) -> None:
        """Add the next bytes of the request."""
        self.size += len(data)
        self._last_piece += data
        if len(self._last_piece) >= PIECE_BYTES:  # fewer, larger pieces: each takes some memory of its own
            self._end_piece()

    def recv(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end; raises RequestEntityTooLarge where the body was cut."""
        if not self._pieces and self._last_piece:
            self._end_piece()
        if not self._pieces:
            if self.cut:
                raise RequestEntityTooLarge
            return b""
        piece = self._pieces.popleft()
        if len(piece) > size:
            self._pieces.appendleft(piece[size:])
        return bytes(piece[:size])

    def _end_piece(self) -> None:
        self._pieces.append(memoryview(self._last_piece))
        self._last_piece = bytearray()


MAX_LINE_BYTES = 8192
MAX_TRAILER_BYTES = 64 * 2**10
FREE_CHUNKS = 10_000  # of any size; beyond that they need an average size
AVERAGE_CHUNK_BYTES = 256


HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
MAX_SIZE_DIGITS = 16


class ChunkScanner:
    """Finds the end of a chunked body (RFC 9112, section 7.1).

    A body whose end cannot be found is `malformed` and ends there; gunicorn's parser, which reads the body again,
    then refuses it.
    """

    def __init__(self) -> None:
        self.ended = self.malformed = self.too_many_chunks = False
        self._line = bytearray()
        self._bytes_to_skip = 0
        self._after_data = self._in_trailer = False
        self._trailer_bytes = self._chunks = self._scanned = 0

    def feed(self, data: bytes) -> int:
        """Scan the next piece; return how many of its bytes belong to the body."""
        position = 0
        while position < len(data) and not self.ended:
            if self._bytes_to_skip:
                skipped = min(self._bytes_to_skip, len(data) - position)
                self._bytes_to_skip -= skipped
                position += skipped
                continue
            end = data.find(b"\n", position, position + MAX_LINE_BYTES) + 1
            part = data[position : end or position + MAX_LINE_BYTES]
            self._line += part
            position += len(part)
            if end:
                self._end_line()
            elif len(self._line) > (1 if self._after_data else MAX_LINE_BYTES):
                self._fail()
        self._scanned += position
        if self._chunks > FREE_CHUNKS + self._scanned / AVERAGE_CHUNK_BYTES:
            self.ended = self.too_many_chunks = True
        return position

    def _fail(self) -> None:
        self.ended = self.malformed = True

    def _end_line(self) -> None:
        line = bytes(self._line)
        self._line.clear()
        if not line.endswith(b"\r\n") or (self._after_data and line != b"\r\n"):
            self._fail()
        elif self._after_data:
            self._after_data = False
        elif self._in_trailer:
            self._trailer_bytes += len(line)
            self.ended = line == b"\r\n"
            if self._trailer_bytes > MAX_TRAILER_BYTES:
                self._fail()
        else:
            self._begin_chunk(line.partition(b";")[0].rstrip())

    def _begin_chunk(self, digits: bytes) -> None:
        if not 1 <= len(digits) <= MAX_SIZE_DIGITS or not HEX_DIGITS.issuperset(digits):
            self._fail()
            return
        self._bytes_to_skip = int(digits, 16)
        self._after_data = self._bytes_to_skip > 0
        self._in_trailer = not self._after_data
        self._chunks += 1
