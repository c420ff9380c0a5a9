"""Servers that misbehave: each answers the profile as an honest site does, and then as it likes."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


class LyingSite(ThreadingHTTPServer):
    """A server on this machine. Every handler ends when it is closed."""

    daemon_threads = False
    block_on_close = True

    def __init__(self, profile: bytes, answer: "Callable[[LyingSite, Handler], Any]") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.profile, self.answer = profile, answer
        self.closing = Event()
        self.bodies: list[bytes] = []

    def handle_error(self, *_: Any) -> None:
        """Say nothing: clients hang up on these servers."""


class Handler(BaseHTTPRequestHandler):
    """Answers a request."""

    server: LyingSite

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Send the profile."""
        self.send(200, self.server.profile)

    def do_POST(self) -> None:
        """Read the search, and misbehave."""
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        with suppress(OSError):
            self.server.answer(self.server, self)

    def send(self, status: int, content: bytes, **headers: str) -> None:
        """Send a whole response."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def hangs(site: LyingSite, handler: Handler) -> None:
    site.closing.wait()


def drips(site: LyingSite, handler: Handler) -> None:
    """Send a byte of the body every so often."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not site.closing.wait(0.05):
        handler.wfile.write(b" ")


def drips_headers(site: LyingSite, handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not site.closing.wait(0.05):
        handler.wfile.write(b"a")


def never_ends(site: LyingSite, handler: Handler) -> None:
    """Announce 10 GB, and send as much of it as the client reads."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(10 * 10**9))
    handler.end_headers()
    block = b"[" * 2**20
    while not site.closing.is_set():
        handler.wfile.write(block)


def never_ends_in_chunks(site: LyingSite, handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not site.closing.is_set():
        handler.wfile.write(b"10000\r\n" + b"9" * 65536 + b"\r\n")


def breaks_off(site: LyingSite, handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.connection.shutdown(socket.SHUT_RDWR)


def speaks_no_http(site: LyingSite, handler: Handler) -> None:
    handler.wfile.write(b"220 mail.example ESMTP\r\n")
    handler.close_connection = True


def redirects(site: LyingSite, handler: Handler) -> None:
    handler.send(302, b"", Location="http://127.0.0.1:1/elsewhere")


def fails(site: LyingSite, handler: Handler) -> None:
    handler.send(500, b"<html>Traceback</html>")


def says(content: bytes) -> Callable[[LyingSite, Handler], None]:
    """Return what answers 200 with this content."""
    return lambda site, handler: handler.send(200, content)


@contextmanager
def lying(profile: bytes, answer: Callable[[LyingSite, Handler], Any]) -> Iterator[LyingSite]:
    """Yield the server while it listens."""
    site = LyingSite(profile, answer)
    thread = Thread(target=site.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        site.closing.set()
        site.shutdown()
        thread.join()
        site.server_close()
