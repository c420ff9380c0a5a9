"""Stop work for clients that left or were cut off, and searches that take too long.

A thread cannot be stopped from outside. The server answers a request that is older than `request_seconds` itself and
shuts its connection down. Work is done in stages (wait, decode, describe, search, re-rank); between two stages a
request whose client has left, or was cut off, ends. Searches end inside stages too (`query_deadline`).
"""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import request
from werkzeug.exceptions import RequestTimeout

from cbir.search import Stopwatch
from cbir.system.threads import time_limit

PROCESSING = b"HTTP/1.1 102 Processing\r\n\r\n"
PROBE_MILLISECONDS = 50  # for the reply of the client's system; a later one is noticed by the next check
HAS_FINISHED_SENDING = getattr(select, "POLLRDHUP", 0)  # Linux only; other systems report less


class Deadline(Stopwatch):
    """Times the stages of the current request; raises RequestTimeout between two of them if its client is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = request.environ.get("gunicorn.socket")
        self.has_left = request.environ.get("waitress.client_disconnected", lambda: False)
        self.check()

    def lap(self, stage: str) -> None:
        """Book the time since the last lap to `stage`, then check the connection."""
        super().lap(stage)
        self.check()

    def check(self) -> None:
        """Raise RequestTimeout if the client's connection is closed."""
        if self.has_left() or (self.connection is not None and is_closed(self.connection)):
            raise RequestTimeout("the client left, or was cut off, before there was an answer")


def is_closed(connection: Any) -> bool:
    """Return True if either side has closed `connection`, a ClientConnection.

    A client may finish sending and still wait for the answer. To see the difference it is sent an interim response,
    once: the system of a client that has left refuses it.
    """
    if connection.fileno() < 0:
        return True
    events = _events(connection, HAS_FINISHED_SENDING, 0)
    if events != HAS_FINISHED_SENDING:
        return bool(events)
    if connection.probed:
        return False
    if connection.request.version < (1, 1):  # knows no interim responses
        return True
    connection.probed = True
    try:
        connection.send_interim(PROCESSING)
    except OSError:
        return True
    return bool(_events(connection, 0, PROBE_MILLISECONDS))


def _events(connection: Any, events: int, milliseconds: int) -> int:
    """Return which of `events` have occurred, and POLLHUP and POLLERR."""
    poll = select.poll()
    poll.register(connection, events)
    return sum(occurred for _, occurred in poll.poll(milliseconds))


@contextmanager
def query_deadline(seconds: float) -> Iterator[Deadline]:
    """Yield the deadline of a search; within, checkpoints cancel it after `seconds` or when its client has left.

    Raises QueryCancelled for the former, RequestTimeout for the latter.
    """
    deadline = Deadline()
    with time_limit(seconds, deadline.check):
        yield deadline
