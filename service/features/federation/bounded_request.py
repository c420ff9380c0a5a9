"""HTTP request to another site, bounded in time and size as a whole, so that no answer holds it for long."""

import socket
import ssl
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from urllib.parse import urlsplit

from cbir.errors import CbirError

CHUNK_BYTES = 64 * 2**10


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
    try:
        return _Exchange(url, request, context, seconds).run()
    except TimeoutError:
        raise SiteFailed(f"it did not answer within {seconds:g} seconds") from None
    except ssl.SSLCertVerificationError as error:
        raise SiteFailed(f"its certificate is not trusted: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise SiteFailed(
            f"TLS failed: {(error.reason or 'no reason given').lower().replace('_', ' ')}"
        ) from None
    except (ConnectionRefusedError, socket.gaierror, UnicodeError):
        raise SiteFailed("it cannot be reached") from None
    except (OSError, HTTPException, ValueError):
        raise SiteFailed("it broke off, or does not speak HTTP") from None


class _Exchange:
    """A request, sent by a thread: nothing can interrupt getaddrinfo. At its end the socket is shut down."""

    def __init__(
        self, url: str, request: SiteRequest, context: ssl.SSLContext | None, seconds: float
    ) -> None:
        self._url, self._request, self._context, self._seconds = url, request, context, seconds
        self._ends = time.monotonic() + seconds
        self._outcome = SimpleQueue[tuple[int, bytes] | Exception]()
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._is_over = False

    def run(self) -> tuple[int, bytes]:
        """Return status and content of the response; raises what the exchange does, and TimeoutError."""
        Thread(target=self._put_outcome, name="request to a site", daemon=True).start()
        try:
            outcome = self._outcome.get(timeout=self._seconds)
        except Empty:
            raise TimeoutError from None
        finally:
            self._end()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _put_outcome(self) -> None:
        try:
            self._outcome.put(self._exchange())
        except Exception as error:
            self._outcome.put(error)

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            if self._socket is not None:
                with suppress(OSError):
                    # That of the base class: the one of TLS would not wake a reader.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _hold(self, opened: socket.socket) -> None:
        """Make `opened` the socket that is shut down; raises TimeoutError if the time is up."""
        with self._lock:
            self._socket = opened
            if self._is_over:
                raise TimeoutError

    def _connect(self, host: str, port: int) -> socket.socket:
        """Connect to the first address of `host` that accepts; raises OSError, of which TimeoutError is one."""
        problem: OSError = ConnectionRefusedError()
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            opened = socket.socket(family, kind, protocol)
            try:
                self._hold(opened)
                # One address after another: each has the time that is left, not all of it.
                opened.settimeout(max(self._ends - time.monotonic(), 0.001))
                opened.connect(address)
                return opened
            except OSError as error:
                problem = error
                opened.close()
            if self._is_over:
                break
        raise problem

    def _exchange(self) -> tuple[int, bytes]:
        parts, request = urlsplit(self._url), self._request
        host, port = parts.hostname or "", parts.port or (443 if self._context else 80)
        with closing(HTTPConnection(host, port)) as connection:
            connection.sock = self._connect(host, port)
            if self._context:
                secured = self._context.wrap_socket(
                    connection.sock, server_hostname=host, do_handshake_on_connect=False
                )
                connection.sock = secured
                self._hold(secured)
                secured.do_handshake()
            path = f"{parts.path.rstrip('/')}{request.path}"
            connection.request(request.method, path, request.body, request.headers)
            with closing(connection.getresponse()) as response:
                return response.status, _read(response, request.most_bytes)


def _read(response: HTTPResponse, most_bytes: int) -> bytes:
    """Return the whole content; raises SiteFailed beyond `most_bytes`."""
    parts, size = list[bytes](), 0
    while part := response.read1(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            raise SiteFailed(f"its answer is larger than {most_bytes} bytes")
    if response.length:  # it announced more
        raise HTTPException
    return b"".join(parts)
