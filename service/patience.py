"""How long a request may take: slow clients are cut off, and nobody works for one that has left.

A thread cannot be stopped from outside, so two things bound its time. A request's connection is shut down once the
request is older than `request_seconds`: whoever reads from or writes to it gives up. And work is done in stages
(wait, decode, describe, search, re-rank), each bounded by the limits of the settings; between two of them a request
whose client has left, or was cut off, ends.
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

LOOK_EVERY = 0.5  # seconds

Item = TypeVar("Item")


class Watch(Stopwatch):
    """The stages of the present request; RequestTimeout between any two where its client is not there any more."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: socket.socket | None = request.environ.get("gunicorn.socket")
        self.look()

    def lap(self, stage: str) -> None:
        """Book the time since the last lap to `stage`."""
        super().lap(stage)
        self.look()

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """The same items, as long as the client is there when each of them is ready: frames that are decoded."""
        for item in items:
            self.look()
            yield item

    def look(self) -> None:
        """Raise RequestTimeout where the client is not there any more."""
        if self.connection is not None and has_left(self.connection):
            raise RequestTimeout("the client left, or was cut off, before there was an answer")


def has_left(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection, or we have shut it down."""
    if connection.fileno() < 0:
        return True
    looking = select.poll()
    looking.register(connection, getattr(select, "POLLRDHUP", 0))  # other systems tell of less
    return bool(looking.poll(0))


class PatientWorker(ThreadWorker):
    """gunicorn's threaded worker, which shuts down the connection of a request older than the settings allow.

    Counted from the first byte of the request to the last one of the response.
    """

    def init_process(self) -> None:
        self._under_way: dict[TConn, float] = {}
        threading.Thread(target=self._cut_off_slow_ones, daemon=True).start()
        super().init_process()

    def handle(self, conn: TConn) -> Any:
        self._under_way[conn] = time.monotonic()
        try:
            return super().handle(conn)
        finally:
            self._under_way.pop(conn, None)

    def _cut_off_slow_ones(self) -> None:
        while True:
            time.sleep(LOOK_EVERY)
            oldest = time.monotonic() - self.app.settings.request_seconds
            for conn, since in list(self._under_way.items()):
                if since < oldest and self._under_way.pop(conn, None):
                    _shut_down(conn.sock)


def _shut_down(connection: socket.socket) -> None:
    # By a second handle: one of TLS would say goodbye first, and wait for an answer.
    with suppress(OSError), socket.fromfd(connection.fileno(), connection.family, connection.type) as handle:
        handle.shutdown(socket.SHUT_RDWR)
