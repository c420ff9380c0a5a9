"""A connection to a client, over TCP as in the service."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest

from service.http.timeouts import is_closed
from service.server.client_connection import ClientConnection
from service.server.request_loop import CONTINUE


@pytest.fixture
def pair() -> Iterator[tuple[ClientConnection, socket.socket]]:
    """A connection of the service with a request of HTTP/1.1, and its client's end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname(), timeout=5)
        ours, client = listener.accept()
        connection = ClientConnection(ours, client, listener.getsockname())
        connection.request = SimpleNamespace(version=(1, 1))
        with closing(connection), theirs:
            yield connection, theirs


def test_a_client_that_waits_has_not_left(pair: tuple[ClientConnection, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(b"the next request")
    assert not is_closed(ours)


@pytest.mark.parametrize("sent", [b"", b"the next request"])
def test_a_client_that_has_finished_sending_still_reads(
    pair: tuple[ClientConnection, socket.socket], sent: bytes
) -> None:
    ours, theirs = pair
    theirs.sendall(sent)
    theirs.shutdown(socket.SHUT_WR)
    for _ in range(3):
        assert not is_closed(ours)
    ours.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    assert ours.end_output()
    received = b"".join(iter(lambda: theirs.recv(1000), b""))
    assert received == b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize("finishes_first", [False, True])
def test_leaving_is_noticed(pair: tuple[ClientConnection, socket.socket], finishes_first: bool) -> None:
    ours, theirs = pair
    if finishes_first:
        theirs.shutdown(socket.SHUT_WR)
        assert not is_closed(ours)
    theirs.close()
    assert is_closed(ours)
    ours.close()
    assert is_closed(ours)


def test_requests_that_wait_take_memory(pair: tuple[ClientConnection, socket.socket]) -> None:
    ours, _ = pair
    ours.received += b"the next request"
    assert ours.held_bytes == 16


def test_old_clients_get_no_interim_response(pair: tuple[ClientConnection, socket.socket]) -> None:
    ours, theirs = pair
    ours.request.version = (1, 0)
    theirs.shutdown(socket.SHUT_WR)
    assert is_closed(ours)
    ours.close()
    assert theirs.recv(1000) == b""


def test_an_interim_response_is_not_the_answer(pair: tuple[ClientConnection, socket.socket]) -> None:
    ours, theirs = pair
    ours.send_interim(CONTINUE)
    ours.answer_if_none(b"answer")
    ours.send_interim(CONTINUE)  # too late
    ours.close()
    assert b"".join(iter(lambda: theirs.recv(1000), b"")) == CONTINUE + b"answer"


def test_an_interim_response_waits_for_a_slow_reader(pair: tuple[ClientConnection, socket.socket]) -> None:
    ours, theirs = pair
    ours.sendall(bytes(10 * 2**20))
    ours.next_request()
    ours.send_interim(CONTINUE)
    received = bytearray()

    def read() -> None:
        while len(received) < 10 * 2**20 + len(CONTINUE):
            received.extend(theirs.recv(2**20))

    reader = threading.Thread(target=read)
    reader.start()
    while not ours.flush():
        pass
    reader.join(10)
    assert received.endswith(CONTINUE)
