"""A connection to a client, its request and its answer."""

import select
import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from enum import IntEnum
from threading import Lock
from typing import IO, Any

from service.server.request_bytes import ChunkScanner, RequestBytes

RECEIVE_BYTES = 256 * 2**10  # at least a TLS record, so that none remains unseen in the TLS library
SEND_BYTES = 256 * 2**10
FILE_BLOCK_BYTES = 256 * 2**10
FILE_BLOCKS = 16  # read at a time, so that a fast client leaves time for others
MAX_PENDING_BYTES = 2**20  # of an answer that is produced piece by piece
WAIT_MILLISECONDS = 500
WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


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
