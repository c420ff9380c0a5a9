"""Accept connections, also encrypted ones, as far as there is room for them."""

import errno
import logging
import os
import socket
import ssl
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from service.server import server_sizes
from service.server.client_connection import ClientConnection
from service.server.connection_table import ConnectionLoop

log = logging.getLogger(__name__)


class TlsContext:
    """TLS context that reads certificate and key again when their files have changed."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._paths = certificate, key
        self._context, self._state = self._read(), self._files_state()

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        state = self._files_state()
        if state != self._state:
            self._state = state
            try:
                self._context = self._read()
            except (OSError, ValueError) as error:
                log.error(
                    "tls_certificate or tls_key changed and cannot be used; the earlier stay in use: %s",
                    error,
                )
        return self._context

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # An empty password, so that an encrypted key raises an error instead of prompting.
        context.load_cert_chain(*self._paths, password="")
        return context

    def _files_state(self) -> list[tuple[int, int] | None]:
        states: list[tuple[int, int] | None] = []
        for path in self._paths:
            try:
                stat = os.stat(path)
            except OSError:
                states.append(None)
            else:
                states.append((stat.st_mtime_ns, stat.st_ino))
        return states


PAUSE_SECONDS = 0.1  # without accepting, while no file is free
WARNING_SECONDS = 60
ACCEPTED_AT_ONCE = 32
DROPPED_AT_ONCE = 16
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts connections for a loop, and drops those without a request when there is no room.

    Parameters
    ----------
    listeners : sequence of socket
        Listening sockets.
    tls : TlsContext, optional
        Context of encrypted connections.
    loop : ConnectionLoop
        Takes the connections.
    """

    def __init__(self, listeners: Sequence[Any], tls: TlsContext | None, loop: ConnectionLoop) -> None:
        self._listeners, self._tls, self._loop = listeners, tls, loop
        self._room = server_sizes.connections_allowed(0)
        self._accepting = False
        self._paused_until = self._warned = 0.0

    def resume(self) -> float:
        """Accept again after a pause; return the seconds until the next call is due."""
        paused = time.monotonic() < self._paused_until
        self._set_accepting(not paused)
        return PAUSE_SECONDS if paused else float("inf")

    def stop(self) -> None:
        """Close the listening sockets."""
        self._set_accepting(False)
        for listener in self._listeners:
            listener.close()

    def _set_accepting(self, accepting: bool) -> None:
        if accepting == self._accepting:
            return
        self._accepting = accepting
        for listener in self._listeners:
            listener.setblocking(False)
            self._loop.watch_listener(listener, partial(self._accept, listener) if accepting else None)

    def _accept(self, listener: Any) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, client = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in OUT_OF_FILES:
                    self._free_files()
                    return
                continue
            self._add(sock, client, listener.getsockname())

    def _add(self, sock: socket.socket, client: Any, server: Any) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            if self._tls:
                context = self._tls.current()
                sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError):  # the client has left
            sock.close()
            return
        connection = ClientConnection(sock, client, server)
        if not self._make_room():
            connection.close()
            return
        self._loop.table.add(connection)
        if excess := self._loop.table.excess_of_network(connection):
            self._loop.close(excess)
        self._loop.guarded(self._loop.proceed, connection)  # the request may have arrived already

    def _make_room(self) -> bool:
        while len(self._loop.table) >= self._room:
            if not self._drop_one():
                self.adapt_to_file_limit()  # it may have been raised again
                return len(self._loop.table) < self._room
        return True

    def _drop_one(self) -> bool:
        connection = self._loop.table.to_drop()
        if connection is None:
            return False
        self._loop.close(connection)
        return True

    def _free_files(self) -> None:
        """Drop connections without a request; if there are none, accept no others for a moment."""
        if time.monotonic() > self._warned + WARNING_SECONDS:
            self._warned = time.monotonic()
            log.warning("no more files can be opened: connections without a request are dropped")
        for _ in range(DROPPED_AT_ONCE):
            if not self._drop_one():
                self._paused_until = time.monotonic() + PAUSE_SECONDS
                return

    def adapt_to_file_limit(self) -> None:
        """Drop connections if the limit of open files has been lowered."""
        self._room = server_sizes.connections_allowed(len(self._loop.table))
        while len(self._loop.table) > self._room and self._drop_one():
            pass
