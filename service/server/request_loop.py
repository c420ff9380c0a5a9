"""Stages of a connection in the main thread: handshake, receiving a request, sending the rest of its answer."""

import ssl
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from service.server.client_connection import ClientConnection, Stage
from service.server.connection_loop import READ, WRITE, ConnectionLoop
from service.server.connection_table import ConnectionTable
from service.server.memory_limits import MemoryLimits
from service.server.plain_answers import error_answer, problem_answer
from service.server.request_reader import Progress, read_request_head, take_body

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
