"""Uploads of some clients leave memory for those of others."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from service.server.client_connection import ClientConnection, Stage
from service.server.connection_table import ClientAddresses, MemoryLimits

MIB = 2**20
PROXY = "10.0.0.1"
Connect = Callable[..., ClientConnection]


@pytest.fixture
def limits() -> MemoryLimits:
    return MemoryLimits(ClientAddresses([PROXY]), max_memory=128 * MIB, max_body=64 * MIB)


@pytest.fixture
def connect(limits: MemoryLimits) -> Iterator[Connect]:
    with ExitStack() as stack:

        def connection(address: str, size: int, stage: Stage = Stage.body) -> ClientConnection:
            ours, theirs = socket.socketpair()
            stage_of = ClientConnection(stack.enter_context(ours), (address, 1), ("127.0.0.1", 2))
            stack.enter_context(theirs)
            stage_of.enter(stage)
            limits.book(stage_of, size)
            return stage_of

        yield connection


def test_requests_at_work_leave_memory_for_small_ones(limits: MemoryLimits, connect: Connect) -> None:
    busy = [connect(f"192.0.2.{number}", 64 * MIB, Stage.working) for number in range(2)]
    for address in ("192.0.2.0", "192.0.2.9"):
        small = connect(address, MIB)
        assert limits.to_end(small, [*busy, small]) is None
    large = connect("192.0.2.9", 10 * MIB)
    assert limits.to_end(large, [*busy, large]) is large


def test_a_client_gets_half(limits: MemoryLimits, connect: Connect) -> None:
    busy = connect("192.0.2.1", 60 * MIB, Stage.working)
    second, other = connect("192.0.2.1", 10 * MIB), connect("192.0.2.2", 40 * MIB)
    connections = [busy, second, other]
    assert limits.to_end(second, connections) is second
    assert limits.to_end(other, connections) is None


def test_a_client_gets_half_of_what_is_for_small_ones(limits: MemoryLimits, connect: Connect) -> None:
    many = [connect("192.0.2.1", MIB, Stage.head if number % 2 else Stage.body) for number in range(9)]
    assert limits.to_end(many[-1], many) in many
    other = connect("192.0.2.2", MIB)
    assert limits.to_end(other, [*many, other]) is None


def test_the_client_that_takes_most_is_refused(limits: MemoryLimits, connect: Connect) -> None:
    hog = [connect("192.0.2.1", 30 * MIB, Stage.working), connect("192.0.2.1", 20 * MIB)]
    others = [connect(f"192.0.2.{number}", 40 * MIB) for number in (2, 3)]
    assert limits.to_end(others[0], [*hog, *others]) is hog[1]


def test_clients_of_a_trusted_proxy_are_many(limits: MemoryLimits, connect: Connect) -> None:
    connections = [connect(PROXY, 35 * MIB) for _ in range(3)]
    assert limits.to_end(connections[0], connections) is None
    connections.append(connect(PROXY, 35 * MIB))
    assert limits.to_end(connections[0], connections) in connections


def test_memory_that_is_free_again_is_not_counted(limits: MemoryLimits, connect: Connect) -> None:
    first, second = connect("192.0.2.1", 60 * MIB), connect("192.0.2.1", 60 * MIB)
    assert limits.to_end(second, [first, second])
    limits.book(first, 0)
    assert limits.to_end(second, [first, second]) is None
    limits.book(second, MIB)
    assert limits.taken == {(False, "192.0.2.1"): MIB}


@pytest.mark.parametrize("max_body", [1, MIB, 64 * MIB])
def test_the_largest_body_always_fits(max_body: int, connect: Connect) -> None:
    limits = MemoryLimits(ClientAddresses([]), max_memory=max_body, max_body=max_body)
    upload = connect("192.0.2.1", 0)
    limits.book(upload, max_body + 1000)
    assert limits.to_end(upload, [upload]) is None
