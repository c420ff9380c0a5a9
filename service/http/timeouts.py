"""Time limits of requests: cut off slow clients, stop work for clients that left.

A thread cannot be stopped from outside, so two mechanisms bound the time of a request. Its connection is shut down
once the request is older than `request_seconds`, so that reads and writes on it fail. And work is done in stages
(wait, decode, describe, search, re-rank), each bounded by limits in the settings; between two stages a request whose
client has left, or was cut off, ends.
"""

import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from flask import request
from gunicorn.workers.gthread import TConn, ThreadWorker
from werkzeug.exceptions import RequestTimeout

from cbir.search import Stopwatch

CHECK_SECONDS = 0.5  # interval of the search for requests that are too old

Item = TypeVar("Item")


class Deadline(Stopwatch):
    """Times the stages of the current request; raises RequestTimeout between two of them if its client is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: socket.socket | None = request.environ.get("gunicorn.socket")
        self.check()

    def lap(self, stage: str) -> None:
        """Book the time since the last lap to `stage`, then check the connection."""
        super().lap(stage)
        self.check()

    def iterate(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield `items`, for instance frames being decoded, and check the connection before each."""
        for item in items:
            self.check()
            yield item

    def check(self) -> None:
        """Raise RequestTimeout if the client's connection is closed."""
        if self.connection is not None and is_closed(self.connection):
            raise RequestTimeout("the client left, or was cut off, before there was an answer")


def is_closed(connection: socket.socket) -> bool:
    """Return True if either side has closed or shut down `connection`."""
    if connection.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(connection, getattr(select, "POLLRDHUP", 0))  # Linux only; other systems report less
    return bool(poll.poll(0))


class TimeoutWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's threaded worker; shuts down connections of requests older than `request_seconds`.

    The age counts from the first byte of the request to the last byte of the response.
    """

    def init_process(self) -> None:
        self._started: dict[TConn, float] = {}
        threading.Thread(target=self._cut_off_slow_requests, daemon=True).start()
        super().init_process()

    def handle(self, conn: TConn) -> Any:
        self._started[conn] = time.monotonic()
        try:
            return super().handle(conn)
        finally:
            self._started.pop(conn, None)

    def _cut_off_slow_requests(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            oldest = time.monotonic() - self.app.settings.request_seconds
            for conn, started in list(self._started.items()):
                if started < oldest and self._started.pop(conn, None):
                    _shut_down(conn.sock)


def _shut_down(connection: socket.socket) -> None:
    # By a second handle: a TLS socket would send its closing alert first, and wait for an answer.
    with suppress(OSError), socket.fromfd(connection.fileno(), connection.family, connection.type) as handle:
        handle.shutdown(socket.SHUT_RDWR)
