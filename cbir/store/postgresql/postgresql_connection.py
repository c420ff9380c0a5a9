"""Connections of psycopg that give up on a server that hangs, and end statements at the time limit of a search."""

import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Self

from psycopg import Connection, OperationalError
from psycopg.errors import ConnectionTimeout, Error

from cbir import settings
from cbir.system.threads import checkpoint

Waiting = Generator[Any, Any, Any]


class WatchedConnection(Connection[Any]):
    """Connection that fails when its server hangs, on a socket of the same machine too, where TCP notices nothing.

    A statement may take long. So when nothing has arrived for `database_seconds`, another connection is tried: if the
    server does not let it in either, it hangs.
    """

    @classmethod
    def connect(cls, *arguments: Any, **parameters: Any) -> Self:
        """Connect as psycopg does."""
        connection = super().connect(*arguments, **parameters)
        connection._again = lambda: Connection.connect(*arguments, **parameters).close()
        connection._seconds = settings.load().database_seconds
        return connection

    _again: Callable[[], None]
    _seconds: float = float("inf")

    def wait(self, gen: Waiting, *arguments: Any, **options: Any) -> Any:
        """Wait for a statement as psycopg does; raises OperationalError if the server hangs."""
        return super().wait(_watched(gen, self._seconds, self._require_server), *arguments, **options)

    def _require_server(self) -> None:
        try:
            self._again()
        except ConnectionTimeout as error:
            self.pgconn.finish()
            raise OperationalError(f"no answer in {self._seconds:g} seconds: timeout expired") from error
        except Error:  # it answers, if only that it has too many connections
            return


class LimitedConnection(WatchedConnection):
    """Connection that also passes checkpoints while it waits for the server."""

    def wait(self, gen: Waiting, *arguments: Any, **options: Any) -> Any:
        """Wait for a statement; cancel it in the server when it is to be cancelled."""
        return super().wait(_with_checkpoints(gen, self._cancel), *arguments, **options)

    def _cancel(self) -> None:
        with suppress(Error):  # the server is down: the statement ends with that
            self.cancel_safe(timeout=5)


def _watched(gen: Waiting, seconds: float, require_server: Callable[[], None]) -> Waiting:
    """Resume a generator of psycopg, and call `require_server` whenever nothing has arrived for some seconds."""
    silent_since = time.monotonic()
    try:
        readiness = next(gen)
        while True:
            ready = yield readiness
            if ready:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > seconds:
                require_server()
                silent_since = time.monotonic()
            readiness = gen.send(ready)
    except StopIteration as end:
        return end.value


def _with_checkpoints(gen: Waiting, cancel: Callable[[], None]) -> Waiting:
    """Resume a generator of psycopg, with a checkpoint before: several times a second while nothing arrives."""
    cancelled = False
    try:
        readiness = next(gen)
        while True:
            ready = yield readiness
            if not cancelled:
                try:
                    checkpoint()
                except Exception:  # raised again once the server has ended the statement
                    cancelled = True
                    cancel()
            readiness = gen.send(ready)
    except StopIteration as end:
        return end.value
