"""Bytes of one request that have arrived."""

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
