"""Clients that send bytes as they are, many at a time or large ones, and the process that answers them."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

import cv2
import httpx
import numpy as np
import psutil

from tests.service.conftest import Served

HOST = b"Host: localhost\r\n"
SEARCH = b"POST /v1/search HTTP/1.1\r\n" + HOST + b"Content-Type: image/png\r\n"
HALF_HEAD = b"POST /v1/search HTTP/1.1\r\nHos"
HALF_BODY = SEARCH + b"Content-Length: 999\r\n\r\nhalf"
HALF_CHUNK = SEARCH + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"
HEALTH = b"GET /healthz HTTP/1.1\r\n" + HOST

PATIENCE_SECONDS = 60.0  # the machine may be busy


def worker(running: Served) -> psutil.Process:
    """The process that answers."""
    return next(iter(psutil.Process(running.process.pid).children()))


@contextmanager
def crowd(port: int, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections on which only these bytes were sent."""
    with ExitStack() as stack:
        sockets = []
        for _ in range(count):
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
            )
            connection.sendall(sent)
            sockets.append(connection)
        yield sockets


def talk(port: int, request: bytes, seconds: float = PATIENCE_SECONDS) -> bytes:
    """Send bytes, and return all that comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def timed(request: Callable[[], httpx.Response]) -> float:
    """How long a request takes that succeeds."""
    started = time.monotonic()
    answer = request()
    assert answer.status_code == 200, answer.text
    return time.monotonic() - started


@cache
def large_png() -> bytes:
    """A file of four million pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (2000, 2000), np.uint8)
    return bytes(cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 0])[1])


def status_of_large_search(address: str) -> int:
    """The status of a search that takes long; 0 if it is cut off while the answer is sent."""
    try:
        kind = {"Content-Type": "image/png"}
        return httpx.post(f"{address}/v1/search", content=large_png(), headers=kind, timeout=60).status_code
    except httpx.TransportError:
        return 0
