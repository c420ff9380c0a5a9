"""Connections that are dropped when there is no room for more."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from service.server.client_connection import ClientConnection, Stage
from service.server.connection_table import ClientAddresses, ConnectionTable

PROXY = "10.0.0.1"
Connect = Callable[..., ClientConnection]


@pytest.fixture
def table() -> ConnectionTable:
    return ConnectionTable(ClientAddresses([PROXY]))


@pytest.fixture
def connect(table: ConnectionTable) -> Iterator[Connect]:
    with ExitStack() as stack:

        def connection(address: str, stage: Stage = Stage.new, seconds: float = 60) -> ClientConnection:
            ours, theirs = socket.socketpair()
            stack.enter_context(theirs)
            made = ClientConnection(stack.enter_context(ours), (address, 1), ("127.0.0.1", 2))
            made.stage, made.since = stage, time.monotonic() - seconds
            table.add(made)
            return made

        yield connection


@pytest.mark.parametrize("stage", [Stage.idle, Stage.body])
def test_silent_connections_of_many_networks_are_dropped_first(
    table: ConnectionTable, connect: Connect, stage: Stage
) -> None:
    honest = [connect("192.0.2.1", stage, seconds=90) for _ in range(3)]
    silent = [connect(f"203.0.{number}.1", Stage.new, seconds=5) for number in range(20)]
    for _ in silent:
        dropped = table.to_drop()
        assert dropped in silent
        table.remove(dropped)
    assert table.to_drop() in honest


def test_networks_of_one_site_count_together(table: ConnectionTable, connect: Connect) -> None:
    honest = [connect("192.0.2.1", Stage.new) for _ in range(15)]
    spread = [connect(f"2001:db8:1:{number:x}::1", Stage.body) for number in range(20)]
    for _ in range(5):
        dropped = table.to_drop()
        assert dropped in spread
        table.remove(dropped)
    assert len(table) == 30
    assert {connection.stage for connection in honest} == {Stage.new}


def test_the_network_with_most_connections_is_dropped_first(table: ConnectionTable, connect: Connect) -> None:
    many = [connect("192.0.2.1", Stage.idle, seconds=30) for _ in range(12)]
    connect("203.0.113.1", Stage.new)
    assert table.to_drop() in many


def test_new_connections_of_clients_about_to_send_stay(table: ConnectionTable, connect: Connect) -> None:
    connect("192.0.2.1", Stage.new, seconds=0)
    old = connect("203.0.113.1", Stage.idle)
    assert table.to_drop() is old


def test_trusted_proxies_come_last(table: ConnectionTable, connect: Connect) -> None:
    for _ in range(20):
        connect(PROXY)
    direct = connect("192.0.2.1", Stage.idle)
    assert table.to_drop() is direct
    table.remove(direct)
    assert table.to_drop() in list(table)


def test_requests_at_work_are_not_dropped(table: ConnectionTable, connect: Connect) -> None:
    connect("192.0.2.1", Stage.working)
    assert table.to_drop() is None
