"""Connections of psycopg whose statements end at the time limit of a search."""

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from psycopg import Connection
from psycopg.errors import Error

from cbir.cancellation import checkpoint


class LimitedConnection(Connection[Any]):
    """Connection that passes checkpoints while it waits for the server."""

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        """Wait for a statement as psycopg does; cancel it in the server when it is to be cancelled."""
        return super().wait(_with_checkpoints(gen, self._cancel), *arguments, **options)

    def _cancel(self) -> None:
        with suppress(Error):  # the server is down: the statement ends with that
            self.cancel_safe(timeout=5)


def _with_checkpoints(gen: Generator[Any, Any, Any], cancel: Callable[[], None]) -> Generator[Any, Any, Any]:
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
