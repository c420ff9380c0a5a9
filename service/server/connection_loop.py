"""Main thread of the server: waits for events of all connections, and never blocks on one of them."""

import os
import selectors
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from service.http.problems import error_location
from service.server.client_connection import ClientConnection
from service.server.connection_table import ConnectionTable, MemoryLimits

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class ConnectionLoop:
    """Event loop over listening sockets and connections; only `call_soon` may be called by other threads.

    Parameters
    ----------
    table : ConnectionTable
        The open connections.
    memory : MemoryLimits
        Memory that bodies and answers take.
    wake_pipe : tuple of int
        Reading and writing end of a non-blocking pipe; signals write to it too.
    log : logging.Logger
        Log for unexpected errors.
    """

    def __init__(
        self, table: ConnectionTable, memory: MemoryLimits, wake_pipe: tuple[int, int], log: Any
    ) -> None:
        self.table, self.memory, self.log = table, memory, log
        self._reading_end, self._writing_end = wake_pipe
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reading_end, READ, self._run_tasks)

    def call_soon(self, task: Callable[[], None]) -> None:
        """Let the main thread call `task`."""
        self._tasks.put(task)
        with suppress(OSError):  # full, so that the main thread wakes anyway; or closed
            os.write(self._writing_end, b".")

    def _run_tasks(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reading_end, 4096)
        while True:
            try:
                task = self._tasks.get_nowait()
            except Empty:
                return
            self._run_callback(task)

    def step(self, seconds: float) -> None:
        """Handle events; wait for them for some `seconds` at most."""
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, ClientConnection):
                self.guarded(self.proceed, key.data)
            else:
                self._run_callback(key.data)

    def _run_callback(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # the worker goes on whatever happens
            self.log.error("unexpected error: %s", error_location(error))

    def proceed(self, connection: ClientConnection) -> None:
        """Do what is next for a connection on which something happened."""
        raise NotImplementedError

    def guarded(self, action: Callable[[ClientConnection], None], connection: ClientConnection) -> None:
        """Apply `action` to an open `connection`; an error ends the connection, never the worker."""
        if connection.fileno() < 0:
            return
        try:
            action(connection)
        except OSError:
            self.close(connection)
        except Exception as error:
            self.log.error("unexpected error: %s", error_location(error))
            self.close(connection)

    def watch_listener(self, listener: Any, callback: Callable[[], None] | None) -> None:
        """Call `callback` when a client connects to `listener`; None: no longer."""
        if callback:
            self._selector.register(listener, READ, callback)
        else:
            self._selector.unregister(listener)

    def watch(self, connection: ClientConnection, events: int) -> None:
        """Wait for `events` of a `connection`, 0 for none."""
        if events == connection.watched:
            return
        if not connection.watched:
            self._selector.register(connection.sock, events, connection)
        elif events:
            self._selector.modify(connection.sock, events, connection)
        else:
            self._selector.unregister(connection.sock)
        connection.watched = events

    def close(self, connection: ClientConnection) -> None:
        """Close a connection in any stage."""
        if connection.fileno() >= 0:
            self.watch(connection, 0)
        connection.close()
        self.table.remove(connection)
        self.memory.book(connection, 0)
