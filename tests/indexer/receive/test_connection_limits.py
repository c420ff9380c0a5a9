"""Peers that hold connections and associations: others are served all the same."""

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from pynetdicom.pdu import A_ASSOCIATE_RQ

from indexer.receive import bounded_server, peer_limits
from indexer.receive.bounded_server import BoundedServer
from indexer.receive.peer_limits import PeerPolicy, PendingConnections
from tests.indexer.receive.listening import OTHER, associate, listening, port_of

HELD = 40
LONG = 40.0  # seconds, in which no connection is cut for its silence
MALFORMED = (
    b"",
    b"\x01\0",
    b"\x01\0\0\0\x04\0" + bytes(100),
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x04\0\0\0\0\x10" + bytes(16),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoundedServer]:
    with listening(tmp_path_factory.mktemp("limits") / "collection", PeerPolicy("CBIR")) as started:
        yield started


def connect(port: int, data: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), source_address=(address, 0))
    made.sendall(data)
    return made


def is_cut(connection: socket.socket, seconds: float = 60) -> bool:
    """Whether the other side ends a connection in time, whatever it says before."""
    connection.settimeout(seconds)
    try:
        while connection.recv(1000):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


class Holder(Thread):
    """Keeps `HELD` connections open, and opens another for each that is cut; aborts one association after another."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port, self.ended = port, Event()

    def run(self) -> None:
        held: list[socket.socket] = []
        while not self.ended.wait(0.05):
            while len(held) < HELD:
                with suppress(OSError):
                    held.append(connect(self.port, MALFORMED[len(held) % len(MALFORMED)]))
            for connection in list(held):
                connection.setblocking(False)
                try:
                    alive = connection.recv(1000) != b""
                except BlockingIOError:
                    alive = True
                except OSError:
                    alive = False
                if not alive:
                    connection.close()
                    held.remove(connection)
            with suppress(RuntimeError):
                associate(self.port, "STRANGER").abort()
        for connection in held:
            connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("address", ["127.0.0.1", OTHER], ids=["same address", "other address"])
def test_associations_beside_connections_that_are_held_open(
    server: BoundedServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "REQUEST_SECONDS", LONG)
    holder = Holder(port_of(server))
    holder.start()
    try:
        time.sleep(0.5)
        waits = []
        for _ in range(20):
            began = time.monotonic()
            made = associate(port_of(server), address=address)
            waits.append(time.monotonic() - began)
            assert made.is_established
            assert made.send_c_echo().Status == 0
            made.release()
    finally:
        holder.ended.set()
        holder.join()
    assert max(waits) < 5


@pytest.mark.parametrize("data", [*MALFORMED[3:], b"\x01\0\x7f\xff\xff\xff"], ids=["http", "data", "large"])
def test_what_is_no_request_is_answered_with_an_abort_at_once(
    server: BoundedServer, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "REQUEST_SECONDS", LONG)
    with connect(port_of(server), data) as connection:
        began = time.monotonic()
        connection.settimeout(60)
        assert connection.recv(1000)[:1] == b"\x07"
        assert is_cut(connection)
    assert time.monotonic() - began < LONG / 2


def test_a_malformed_request_is_answered_with_an_abort(server: BoundedServer) -> None:
    request = bytearray(b"\x01\0\0\0\0\x60\0\x01\0\0" + b"CBIR".ljust(16) + b"SENDER".ljust(16) + bytes(32))
    request += b"\x20\0\0\xff" + bytes(24)  # a presentation context that is longer than the request
    with connect(port_of(server), bytes(request)) as connection:
        connection.settimeout(60)
        assert connection.recv(1000)[:1] == b"\x07"


@pytest.mark.parametrize("data", MALFORMED[:3], ids=["silent", "head", "body"])
def test_an_incomplete_request_is_cut_in_time(
    server: BoundedServer, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "REQUEST_SECONDS", 0.5)
    with connect(port_of(server), data) as connection:
        assert is_cut(connection, 30)


def test_a_request_byte_by_byte_is_cut_in_time(
    server: BoundedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "REQUEST_SECONDS", 0.5)
    began = time.monotonic()
    with connect(port_of(server), b"\x01\0\0\0\x04\0") as connection, suppress(OSError):
        while time.monotonic() - began < 30:
            connection.sendall(b"\0")
            time.sleep(0.1)
    assert time.monotonic() - began < 10


def test_one_address_cannot_take_all_associations(server: BoundedServer) -> None:
    port = port_of(server)
    held = [associate(port) for _ in range(server.peers.max_per_address)]
    try:
        assert all(one.is_established for one in held)
        assert associate(port).is_rejected
        other = associate(port, address=OTHER)
        assert other.is_established
        other.release()
    finally:
        for one in held:
            one.abort()


def test_the_association_that_is_idle_longest_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_limits, "IDLE_SECONDS", 0.5)
    with listening(tmp_path / "collection", PeerPolicy("CBIR", max_associations=2)) as server:
        port = port_of(server)
        first, second = associate(port), associate(port)
        time.sleep(0.7)
        assert first.send_c_echo().Status == 0
        third = associate(port)
        assert third.is_established
        assert first.send_c_echo().Status == 0
        assert until(lambda: second.is_aborted)
        for one in (first, third):
            one.release()


def until(true: Callable[[], bool], seconds: float = 30) -> bool:
    ends = time.monotonic() + seconds
    while not true() and time.monotonic() < ends:
        time.sleep(0.02)
    return true()


def test_every_slot_is_given_back(server: BoundedServer) -> None:
    port, request = port_of(server), A_ASSOCIATE_RQ()
    request.called_ae_title = "CBIR"
    for _ in range(server.peers.max_associations + 2):
        associate(port).abort()
        connect(port, bytes(request.encode())).close()
    assert until(lambda: not server.active_associations)
    held = [associate(port) for _ in range(server.peers.max_per_address)]
    assert all(one.is_established for one in held)
    for one in held:
        one.release()


def test_refusals_are_logged_once_a_minute_without_what_the_peer_says(
    server: BoundedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for title in ("DOE^JOHN", "SECRET"):
        assert associate(port_of(server), title, "ELSE").is_rejected
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("indexer")]
    refused = "a connection from 127.0.0.1 was refused: the called AE title is not ours"
    assert [line for line in lines if "AE title" in line] == [refused]
    assert not any(said in line for line in lines for said in ("DOE", "SECRET", "ELSE"))


def test_the_oldest_connection_of_the_largest_crowd_is_dropped() -> None:
    pending = PendingConnections(limit=4, per_address=3)
    pairs = [socket.socketpair() for _ in range(6)]
    addresses = ("a", "b", "a", "a", "a", "c")
    added = [pending.add(pair[0], address) for pair, address in zip(pairs, addresses, strict=True)]
    assert [one.dropped for one in added] == [True, False, True, False, False, False]
    assert [pending.remove(one) for one in added] == [not one.dropped for one in added]
    for pair, one in zip(pairs, added, strict=True):
        pair[1].setblocking(False)
        if one.dropped:
            assert pair[1].recv(1) == b""
        for end in pair:
            end.close()
