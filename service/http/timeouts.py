"""Stop work for clients that left or were cut off.

A thread cannot be stopped from outside. The server answers a request that is older than `request_seconds` itself and
shuts its connection down. Work is done in stages (wait, decode, describe, search, re-rank); between two stages a
request whose client has left, or was cut off, ends. Searches end inside stages too (`query_deadline.py`).
"""

import select
import socket
from collections.abc import Iterable, Iterator
from typing import TypeVar

from flask import request
from werkzeug.exceptions import RequestTimeout

from cbir.search import Stopwatch

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
