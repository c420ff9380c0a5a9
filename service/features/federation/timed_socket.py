"""Connection to another site that ends when its time is up, even if the site sends slowly or not at all."""

import socket
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread, Timer
from typing import Any

Addresses = list[tuple[Any, ...]]  # as socket.getaddrinfo returns them


class TimedSocket:
    """The socket of a request. At the end of its time it is shut down, which ends every wait for the site.

    Parameters
    ----------
    seconds : float
        Time from now to the end, for finding the address, connecting and everything after that.
    """

    def __init__(self, seconds: float) -> None:
        self.expired = False
        self._ends = time.monotonic() + seconds
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._timer = Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to the first address of `host` that accepts; raises OSError, of which TimeoutError is one."""
        problem: OSError = ConnectionRefusedError()
        for family, kind, protocol, _, address in self._addresses(host, port):
            opened = socket.socket(family, kind, protocol)
            self.hold(opened)
            opened.settimeout(self._remaining())
            try:
                opened.connect(address)
                return opened
            except OSError as error:
                problem = error
                opened.close()
        raise problem

    def hold(self, opened: socket.socket) -> None:
        """Make `opened` the socket that is shut down; raises TimeoutError and closes it if the time is up."""
        with self._lock:
            self._socket = opened
            if self.expired:
                opened.close()
                raise TimeoutError

    def close(self) -> None:
        """Close the socket, if there is one."""
        self._timer.cancel()
        if self._socket is not None:
            self._socket.close()

    def _addresses(self, host: str, port: int) -> Addresses:
        """Return the addresses of `host`. A thread asks for them, since nothing can interrupt getaddrinfo."""
        results = SimpleQueue[Addresses | OSError]()

        def resolve() -> None:
            try:
                results.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except (OSError, UnicodeError) as error:
                results.put(error if isinstance(error, OSError) else socket.gaierror())

        Thread(target=resolve, name="address of a site", daemon=True).start()
        try:
            result = results.get(timeout=self._remaining())
        except Empty:
            raise TimeoutError from None
        if isinstance(result, OSError):
            raise result
        return result

    def _remaining(self) -> float:
        remaining = self._ends - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            if self._socket is not None:
                with suppress(OSError):
                    # That of the base class: the one of TLS would not wake a reader.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
