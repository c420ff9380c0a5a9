"""A connection to a client: the bytes of its request that have arrived, and its answer."""

import select
import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from enum import IntEnum
from threading import Lock
from typing import IO, Any

from werkzeug.exceptions import RequestEntityTooLarge

PIECE_BYTES = 64 * 2**10
MAX_LINE_BYTES = 8192
MAX_TRAILER_BYTES = 64 * 2**10
FREE_CHUNKS = 10_000  # of any size; beyond that they need an average size
AVERAGE_CHUNK_BYTES = 256
HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
MAX_SIZE_DIGITS = 16
RECEIVE_BYTES = 256 * 2**10  # at least a TLS record, so that none remains unseen in the TLS library
SEND_BYTES = 256 * 2**10
FILE_BLOCK_BYTES = 256 * 2**10
FILE_BLOCKS = 16  # read at a time, so that a fast client leaves time for others
MAX_PENDING_BYTES = 2**20  # of an answer that is produced piece by piece
WAIT_MILLISECONDS = 500
WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


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


class Stage(IntEnum):
    """Stages of a connection; those before `working` have no complete request."""

    handshake = 0
    new = 1  # nothing was received
    head = 2
    body = 3
    idle = 4  # kept alive after an answer
    working = 5
    answering = 6
    lingering = 7  # answered, and discards what the client still sends


class ClientConnection:
    """Non-blocking connection to a client.

    One thread at a time works with it: the main thread, or while the stage is `working` a thread of the pool, which
    passes it to gunicorn as its socket. Only `cut_off` may come in between.

    Parameters
    ----------
    sock : socket
        Accepted connection, encrypted if it is an SSLSocket.
    client : tuple
        Address of the client.
    server : tuple
        Address of the listening socket.
    """

    def __init__(self, sock: socket.socket, client: Any, server: Any) -> None:
        sock.setblocking(False)
        self.sock, self.client, self.server = sock, client, server
        self.stage = Stage.handshake if isinstance(sock, ssl.SSLSocket) else Stage.new
        self.since = self.started = time.monotonic()  # of the stage; of the request's first byte
        self.received = bytearray()  # of a head, or of requests after the current one
        self.searched_bytes = 0  # of `received`, for the end of the head
        self.request: Any = None  # gunicorn.http.message.Request
        self.request_bytes: RequestBytes | None = None
        self.chunks: ChunkScanner | None = None
        self.missing_bytes = 0
        self.keep_alive = False
        self.watched = 0  # events the selector waits for
        self.booked_bytes = 0  # in MemoryLimits
        self.probed = False  # the client was sent an interim response, to see if it has left
        self._lock = Lock()
        self._output: deque[memoryview] = deque()
        self._file: IO[bytes] | None = None
        self._pending_bytes = 0
        self._answer_begun = self._abandoned = False

    def fileno(self) -> int:
        """Return the file descriptor, -1 once closed."""
        return self.sock.fileno()

    def enter(self, stage: Stage) -> None:
        """Note that a stage begins."""
        self.stage, self.since = stage, time.monotonic()

    @property
    def held_bytes(self) -> int:
        """Memory that the request, those received after it, and the answer take."""
        request = self.request_bytes.size if self.request_bytes else 0
        return request + len(self.received) + self._pending_bytes

    @property
    def is_end_unknown(self) -> bool:
        """True if the end of the body was not found, so that the next request cannot be found either."""
        is_cut = self.request_bytes is not None and self.request_bytes.cut
        return is_cut or (self.chunks is not None and self.chunks.malformed)

    def receive(self) -> bytes | None:
        """Return bytes from the client: none if it has closed the connection, None if there are none yet."""
        try:
            return self.sock.recv(RECEIVE_BYTES)
        except WOULD_BLOCK:
            return None
        except OSError:
            return b""

    def next_request(self) -> None:
        """Forget the request that was answered."""
        self.request = self.request_bytes = self.chunks = None
        self.missing_bytes = 0
        self._answer_begun = self.probed = False

    def sendall(self, data: bytes) -> None:
        """Send part of an answer; what the client does not read yet is kept.

        Raises BrokenPipeError if the request was cut off. Waits for the client while a long answer, which is
        produced piece by piece, is far ahead of it.
        """
        while self._pending_bytes > MAX_PENDING_BYTES and not self.flush():
            self._wait_until_writable()
        with self._lock:
            if self._abandoned:
                raise BrokenPipeError
            self._answer_begun = True
            self._append(data)
            self._send()

    def send_interim(self, data: bytes) -> None:
        """Send an interim response (1xx), unless the answer has begun."""
        with self._lock:
            if not self._answer_begun:
                self._append(data)
                self._send()

    def answer_if_none(self, answer: bytes) -> None:
        """Send `answer` if the app has not begun its own."""
        if not self._answer_begun:
            with suppress(OSError):
                self.sendall(answer)

    def send_file(self, file: IO[bytes]) -> None:
        """Send `file` after what was sent, as fast as the client reads, and close it."""
        self._file = file

    def flush(self) -> bool:
        """Send what is pending; return True if nothing is left. Raises OSError if the connection is broken."""
        with self._lock:
            self._send()
            for _ in range(FILE_BLOCKS):
                if self._output or self._file is None:
                    break
                self._read_file()
                self._send()
            return not self._output and self._file is None

    def _read_file(self) -> None:
        block = self._file.read(FILE_BLOCK_BYTES) if self._file else b""
        if block:
            self._append(block)
        else:
            self._close_file()

    def _append(self, data: bytes) -> None:
        self._output.append(memoryview(data))
        self._pending_bytes += len(data)

    def _send(self) -> None:
        if self._abandoned:
            raise BrokenPipeError
        with suppress(*WOULD_BLOCK):
            while self._output:
                sent = self.sock.send(self._output[0][:SEND_BYTES])
                self._pending_bytes -= sent
                self._output[0] = self._output[0][sent:]
                if not self._output[0]:
                    self._output.popleft()

    def _wait_until_writable(self) -> None:
        poll = select.poll()
        poll.register(self.sock, select.POLLOUT)
        poll.poll(WAIT_MILLISECONDS)

    def cut_off(self, answer: bytes) -> None:
        """End a request at work: send `answer` if the app has not begun its own, and shut the connection down."""
        with self._lock:
            if self._abandoned:
                return
            if not self._answer_begun:
                with suppress(OSError):
                    self.sock.send(answer)
            self._abandoned = True
            self._output.clear()
            self._pending_bytes = 0
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

    def end_output(self) -> bool:
        """Tell the client that no more comes; return False if the connection is broken."""
        if isinstance(self.sock, ssl.SSLSocket):
            with suppress(OSError, ValueError):
                self.sock.unwrap()  # sends close_notify; does not wait for the client's
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        self._close_file()
        with suppress(OSError):
            self.sock.close()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
