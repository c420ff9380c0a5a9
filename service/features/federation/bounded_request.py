"""HTTP request to another site, bounded in time and size as a whole, so that no answer holds it for long."""

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from queue import Empty, SimpleQueue
from threading import Lock, Thread, Timer
from typing import Any
from urllib.parse import urlsplit

from cbir.errors import CbirError

CHUNK_BYTES = 64 * 2**10

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


class SiteFailed(CbirError):
    """A site that did not answer, or not the question.

    refused: True if it answered that it will not: trying again soon will not help, and it is not broken.
    """

    def __init__(self, text: str, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


@dataclass(frozen=True)
class SiteRequest:
    """A request: method, path below the site's URL, headers, body, and the size of the largest answer."""

    method: str
    path: str
    most_bytes: int
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict, repr=False)  # with the token


def send(url: str, request: SiteRequest, context: ssl.SSLContext | None, seconds: float) -> tuple[int, bytes]:
    """Send a request and return status and content of the response; redirects are not followed, proxies not used.

    Parameters
    ----------
    url : str
        URL of the service.
    request : SiteRequest
        The request.
    context : ssl.SSLContext or None
        TLS; None for http.
    seconds : float
        Time limit of the whole, from looking up the address to the last byte.

    Raises
    ------
    SiteFailed
        If the site does not answer within the limits, or with something else than HTTP.
    """
    opened = TimedSocket(seconds)
    try:
        return _send(url, request, context, opened)
    except ssl.SSLCertVerificationError as error:
        raise SiteFailed(f"its certificate is not trusted: {error.verify_message}") from None
    except ssl.SSLError as error:
        if opened.expired:
            raise SiteFailed(f"it did not answer within {seconds:g} seconds") from None
        raise SiteFailed(
            f"TLS failed: {(error.reason or 'no reason given').lower().replace('_', ' ')}"
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        if opened.expired or isinstance(error, TimeoutError):
            raise SiteFailed(f"it did not answer within {seconds:g} seconds") from None
        if isinstance(error, ConnectionRefusedError | socket.gaierror):
            raise SiteFailed("it cannot be reached") from None
        raise SiteFailed("it broke off, or does not speak HTTP") from None
    finally:
        opened.close()


def _send(
    url: str, request: SiteRequest, context: ssl.SSLContext | None, opened: TimedSocket
) -> tuple[int, bytes]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if context else 80)
    connection = HTTPConnection(host, port)
    connection.sock = opened.connect(host, port)
    if context:
        secured = context.wrap_socket(connection.sock, server_hostname=host, do_handshake_on_connect=False)
        opened.hold(secured)
        secured.do_handshake()
        connection.sock = secured
    connection.request(
        request.method, f"{parts.path.rstrip('/')}{request.path}", request.body, request.headers
    )
    response = connection.getresponse()
    content = _read(response, request.most_bytes, lambda: opened.expired)
    if opened.expired:
        raise TimeoutError
    return response.status, content


def _read(response: HTTPResponse, most_bytes: int, expired: Callable[[], bool]) -> bytes:
    """Return the whole content; raises SiteFailed beyond `most_bytes`, TimeoutError when the time has `expired`."""
    parts, size = list[bytes](), 0
    while part := response.read1(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            raise SiteFailed(f"its answer is larger than {most_bytes} bytes")
        if expired():
            raise TimeoutError
    if response.length:  # it announced more
        raise HTTPException
    return b"".join(parts)
