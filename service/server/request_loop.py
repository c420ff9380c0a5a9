"""Stages of a connection in the main thread: handshake, receiving a request, sending the rest of its answer.

The head of a request is for gunicorn's parser; some answers the server gives itself, without the app.
"""

import logging
import ssl
import time
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import Any

from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.errors import LimitRequestHeaders, NoMoreData, UnsupportedTransferCoding
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser

from service.http.problems import (
    MEDIA_TYPE,
    NOT_HTTP,
    RETRY_SECONDS,
    RETRYABLE,
    UNEXPECTED,
    error_location,
    is_not_http,
    problem_json,
)
from service.server.client_connection import ChunkScanner, ClientConnection, RequestBytes, Stage
from service.server.connection_table import READ, WRITE, ConnectionLoop, ConnectionTable, MemoryLimits

URI_TOO_LONG = HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long; send long parameters in the body"
HEADERS_TOO_LARGE = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long or too many"
UNSUPPORTED_CODING = (
    HTTPStatus.BAD_REQUEST,
    "bodies are sent with Content-Length or Transfer-Encoding: chunked",
)
ANSWERS = {
    "LimitRequestLine": URI_TOO_LONG,
    "LimitRequestHeaders": HEADERS_TOO_LARGE,
    "UnsupportedTransferCoding": UNSUPPORTED_CODING,
}

log = logging.getLogger(__name__)


def problem_answer(status: HTTPStatus, detail: str) -> bytes:
    """Return a whole HTTP response with a problem of `status` and `detail`; it closes the connection."""
    text = problem_json(status, detail).encode()
    retry = f"Retry-After: {RETRY_SECONDS}\r\n" if status in RETRYABLE else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(text)}\r\n{retry}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + text


def error_answer(error: BaseException) -> bytes:
    """Return the response to an error of gunicorn's parser, or to a defect, which is logged."""
    if isinstance(error, Exception) and is_not_http(error):
        return problem_answer(*ANSWERS.get(type(error).__name__, (HTTPStatus.BAD_REQUEST, NOT_HTTP)))
    log.error("unexpected error: %s", error_location(error))
    return problem_answer(HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED)


MAX_HEAD_BYTES = 64 * 2**10
HEAD_ENDS = (b"\r\n\r\n", b"\n\n")  # gunicorn's parser refuses the second
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Progress(Enum):
    """Result of receiving a piece."""

    incomplete = 1
    complete = 2
    too_many_chunks = 3


def read_request_head(connection: ClientConnection, config: Any, max_body: int) -> Progress:
    """Parse the head in `connection.received` once it is complete, and take what there is of the body.

    Parameters
    ----------
    connection : ClientConnection
        Its `request` is set.
    config : gunicorn.config.Config
        Limits of the parser.
    max_body : int
        Bytes of the largest body allowed. The app refuses larger ones without having received them.

    Raises
    ------
    Exception
        An error of gunicorn's parser, for a head that is malformed or too long.
    """
    received = connection.received
    start = max(0, connection.searched_bytes - 3)
    ends = [end + len(mark) for mark in HEAD_ENDS if (end := received.find(mark, start)) >= 0]
    connection.searched_bytes = len(received)
    if not ends and len(received) <= MAX_HEAD_BYTES:
        return Progress.incomplete
    length = min(ends, default=len(received))
    head, rest = bytes(received[:length]), bytes(received[length:])
    received.clear()
    connection.searched_bytes = 0
    request_bytes = RequestBytes(head)
    try:
        request: Request = next(RequestParser(config, request_bytes, connection.client))
    except (NoMoreData, StopIteration):
        raise LimitRequestHeaders("max buffer headers") from None
    codings = [value.strip().lower() for name, value in request.headers if name == "TRANSFER-ENCODING"]
    if codings not in ([], ["chunked"]):  # gunicorn's parser accepts others, and does not decode them
        raise UnsupportedTransferCoding(", ".join(codings))
    connection.request, connection.request_bytes = request, request_bytes
    reader = request.body.reader
    if isinstance(reader, ChunkedReader):
        connection.chunks = ChunkScanner()
    elif isinstance(reader, LengthReader):
        connection.missing_bytes = reader.length
    if connection.missing_bytes > max_body:
        request_bytes.cut = True
        return Progress.complete
    if connection.chunks is None and not connection.missing_bytes:
        received += rest
        return Progress.complete
    if request._expected_100_continue and not rest:
        connection.send_interim(CONTINUE)
    connection.enter(Stage.body)
    return take_body(connection, rest, max_body)


def take_body(connection: ClientConnection, data: bytes, max_body: int) -> Progress:
    """Add `data` to the body of at most `max_body` bytes; what follows the body is kept in `connection.received`."""
    assert connection.request_bytes
    chunks = connection.chunks
    if chunks is None:
        length = min(connection.missing_bytes, len(data))
        connection.missing_bytes -= length
        complete = not connection.missing_bytes
    else:
        length = chunks.feed(data)
        complete = chunks.ended
        if chunks.too_many_chunks:
            return Progress.too_many_chunks
    connection.request_bytes.append(data[:length])
    if complete:
        connection.received += data[length:]
    elif connection.request_bytes.size > max_body + MAX_HEAD_BYTES and chunks is not None:
        connection.request_bytes.cut = complete = True
    return Progress.complete if complete else Progress.incomplete


SILENT_SECONDS = 10  # for the handshake, and until the first byte
LINGER_SECONDS = 2  # to discard what a client still sends after its answer
LINGER_BYTES = 64 * 2**20
NO_MEMORY = "the service holds as many uploads as it has memory for; try again in a moment"
SMALL_CHUNKS = "the body is sent in too many small chunks"


class RequestLoop(ConnectionLoop):
    """Loop that calls `begin_work` with connections that have a complete request; `answer_work` continues with them.

    Parameters
    ----------
    table, memory, wake_pipe, log
        As of ConnectionLoop.
    config : gunicorn.config.Config
        Limits of heads, and the seconds that connections are kept alive.
    max_body : int
        Bytes of the largest body.
    request_seconds : float
        Time limit of a request.
    begin_work : callable
        Called with a connection; it has to be passed to `answer_work` later.
    """

    def __init__(
        self,
        table: ConnectionTable,
        memory: MemoryLimits,
        wake_pipe: tuple[int, int],
        log: Any,
        *,
        config: Any,
        max_body: int,
        request_seconds: float,
        begin_work: Callable[[ClientConnection], None],
    ) -> None:
        super().__init__(table, memory, wake_pipe, log)
        self._config, self._max_body = config, max_body
        self._request_seconds, self._begin_work = request_seconds, begin_work

    def proceed(self, connection: ClientConnection) -> None:
        """Do what is next for a connection on which something happened."""
        match connection.stage:
            case Stage.handshake:
                self._shake_hands(connection)
            case Stage.new | Stage.head | Stage.body | Stage.idle:
                self._receive(connection)
            case Stage.answering:
                self._flush(connection)
            case Stage.lingering:
                self._discard(connection)

    def _shake_hands(self, connection: ClientConnection) -> None:
        assert isinstance(connection.sock, ssl.SSLSocket)
        try:
            connection.sock.do_handshake()
        except ssl.SSLWantReadError:
            self.watch(connection, READ)
        except ssl.SSLWantWriteError:
            self.watch(connection, WRITE)
        else:
            connection.enter(Stage.new)
            self._receive(connection)

    def _receive(self, connection: ClientConnection) -> None:
        data = connection.receive()
        if data is None:
            self.watch(connection, READ)
        elif data:
            self._take(connection, data)
        else:
            self.close(connection)

    def _take(self, connection: ClientConnection, data: bytes) -> None:
        """Add received `data` to the request, and begin work on it if it is complete."""
        try:
            progress = self._add_to_request(connection, data)
        except Exception as error:
            self.answer(connection, error_answer(error))
            return
        self.memory.book(connection, connection.held_bytes)
        if progress is Progress.complete:
            self.watch(connection, 0)
            connection.enter(Stage.working)
            self._begin_work(connection)
        elif progress is Progress.too_many_chunks:
            self.answer(connection, problem_answer(HTTPStatus.BAD_REQUEST, SMALL_CHUNKS))
        else:
            self.watch(connection, READ)
            self._limit_memory(connection)

    def _add_to_request(self, connection: ClientConnection, data: bytes) -> Progress:
        if connection.stage is Stage.body:
            return take_body(connection, data, self._max_body)
        if connection.stage is not Stage.head:
            connection.enter(Stage.head)
            connection.started = connection.since
        connection.received += data
        return read_request_head(connection, self._config, self._max_body)

    def _limit_memory(self, connection: ClientConnection) -> None:
        """End requests that are not at work, and answers that are not read, if `connection` takes too much."""
        while victim := self.memory.to_end(connection, self.table):
            if victim.stage is Stage.answering:
                self.close(victim)
            else:
                self.answer(victim, problem_answer(HTTPStatus.TOO_MANY_REQUESTS, NO_MEMORY))

    def answer(self, connection: ClientConnection, answer: bytes) -> None:
        """Send an `answer` of the server itself instead of the app's, and close the connection after it."""
        connection.answer_if_none(answer)
        self.answer_work(connection, keep_alive=False)

    def answer_work(self, connection: ClientConnection, keep_alive: bool) -> None:
        """Send the rest of an answer, then wait for the next request if `keep_alive`."""
        if connection.fileno() < 0:
            return
        connection.keep_alive = keep_alive
        connection.next_request()
        if not keep_alive:
            connection.received.clear()
        connection.enter(Stage.answering)
        self.guarded(self._flush, connection)

    def _flush(self, connection: ClientConnection) -> None:
        sent = connection.flush()
        self.memory.book(connection, connection.held_bytes)
        if not sent:
            self.watch(connection, WRITE)
        elif not connection.keep_alive:
            self._linger(connection)
        else:
            connection.enter(Stage.idle)
            if data := bytes(connection.received):  # the next request came with this one
                connection.received.clear()
                self._take(connection, data)
            else:
                self.watch(connection, READ)

    def _linger(self, connection: ClientConnection) -> None:
        """Discard what the client still sends: a close might destroy the answer on its way (RFC 9112, 9.6)."""
        if not connection.end_output():
            self.close(connection)
            return
        connection.enter(Stage.lingering)
        connection.missing_bytes = LINGER_BYTES
        self.watch(connection, READ)

    def _discard(self, connection: ClientConnection) -> None:
        data = connection.receive()
        if data is None:
            return
        connection.missing_bytes -= len(data)
        if not data or connection.missing_bytes < 0:
            self.close(connection)

    def end_slow_requests(self) -> None:
        """Answer requests that took too long with 408, and close connections on which nothing happens."""
        now = time.monotonic()
        detail = f"the request took longer than request_seconds ({self._request_seconds:g} s)"
        answer = problem_answer(HTTPStatus.REQUEST_TIMEOUT, detail)
        for connection in self.table:
            if connection.stage in (Stage.head, Stage.body, Stage.working, Stage.answering):
                if now - connection.started <= self._request_seconds:
                    continue
                if connection.stage is Stage.working:
                    connection.cut_off(answer)  # its thread passes it on when it notices
                elif connection.stage is Stage.answering:
                    self.close(connection)
                else:
                    self.answer(connection, answer)
            elif now - connection.since > self._patience(connection.stage):
                self.close(connection)

    def _patience(self, stage: Stage) -> float:
        if stage is Stage.idle:
            return float(self._config.keepalive)
        return LINGER_SECONDS if stage is Stage.lingering else SILENT_SECONDS
