"""All open connections, of which the main thread waits for events, and the memory that they take by network."""

import os
import selectors
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_network
from itertools import chain
from queue import Empty, SimpleQueue
from typing import Any

from service.access.proxies import parse_address
from service.access.rate_limits import network_of
from service.http.problems import error_location
from service.server.client_connection import ClientConnection, Stage

MAX_WAITING_PER_NETWORK = 256
FEW = 8  # connections of a browser; clients with no more than these count alike
YOUNG_SECONDS = 1.0
SPARED = {Stage.body: 1, Stage.idle: 2}
SMALL_BYTES = 2**20  # an eighth of the memory is for those up to this size
SMALL_PART = 8
HEAD_BYTES = 2**20  # of a request, and of the next one that has come with it
CAN_END = (Stage.head, Stage.body, Stage.answering)
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class ClientAddresses:
    """Networks of clients, and the proxies whose addresses are in `trusted`."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted = [ip_network(network) for network in trusted]
        self.network = lru_cache(4096)(self._network)

    @staticmethod
    def _network(address: str) -> str:
        return network_of(str(parse_address(address) or ""))

    @staticmethod
    @lru_cache(4096)
    def site(network: str) -> str:
        """Return the /48 network that an IPv6 `network` belongs to: providers give a customer up to as many."""
        return str(ip_network(f"{network}/48", strict=False)) if ":" in network else network

    def is_proxy(self, address: str) -> bool:
        """Return True if `address` belongs to a trusted proxy, whose connections are those of many clients."""
        parsed = parse_address(address)
        return parsed is not None and any(parsed in network for network in self._trusted)


def _drop_order(connection: ClientConnection) -> tuple[bool, int, float]:
    """Sort the oldest first, but first those that have sent no request, and last those of clients about to send."""
    is_young = time.monotonic() - connection.since < YOUNG_SECONDS
    return is_young, 0 if is_young else SPARED.get(connection.stage, 0), connection.since


class ConnectionTable:
    """Open connections by the network of their client; `addresses` says which belong together."""

    def __init__(self, addresses: ClientAddresses) -> None:
        self._addresses = addresses
        self._by_network: dict[str, dict[ClientConnection, None]] = {}
        self._trusted: dict[str, bool] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter([connection for group in self._by_network.values() for connection in group])

    def _network(self, connection: ClientConnection) -> str:
        return self._addresses.network(connection.client[0])

    def add(self, connection: ClientConnection) -> None:
        """Add an open connection."""
        network = self._network(connection)
        if network not in self._by_network:
            self._by_network[network] = {}
            self._trusted[network] = self._addresses.is_proxy(connection.client[0])
        self._by_network[network][connection] = None
        self._count += 1

    def remove(self, connection: ClientConnection) -> None:
        """Remove a closed connection; it may be removed already."""
        network = self._network(connection)
        group = self._by_network.get(network, {})
        if connection in group:
            del group[connection]
            self._count -= 1
            if not group:
                del self._by_network[network], self._trusted[network]

    def excess_of_network(self, connection: ClientConnection) -> ClientConnection | None:
        """Return the connection to drop if the client of `connection` has too many without a complete request."""
        network = self._network(connection)
        if self._trusted[network] or len(self._by_network[network]) <= MAX_WAITING_PER_NETWORK:
            return None
        waiting = [each for each in self._by_network[network] if each.stage < Stage.working]
        return min(waiting, key=_drop_order) if len(waiting) > MAX_WAITING_PER_NETWORK else None

    def to_drop(self) -> ClientConnection | None:
        """Return the connection to drop first for lack of room: of the site with most that have no request at work.

        None if every connection has one. Trusted proxies come last.
        """
        sites: dict[bool, defaultdict[str, list[ClientConnection]]] = {
            False: defaultdict(list),
            True: defaultdict(list),
        }
        for network, group in self._by_network.items():
            if waiting := [each for each in group if each.stage < Stage.working]:
                sites[self._trusted[network]][self._addresses.site(network)] += waiting
        groups = list((sites[False] or sites[True]).values())
        if not groups:
            return None
        largest = max(groups, key=len)
        candidates = largest if len(largest) > FEW else chain.from_iterable(groups)
        return min(candidates, key=_drop_order)


class MemoryLimits:
    """Memory by size of the request, small or large, and by the network of its client, which may take half of either.

    Requests at work count, though they cannot be ended.

    Parameters
    ----------
    addresses : ClientAddresses
        Tells which clients belong together. Trusted proxies may take all memory.
    max_memory : int
        Bytes of all requests and answers together.
    max_body : int
        Bytes of the largest body, which is accepted even if it is more than half of `max_memory`.
    """

    def __init__(self, addresses: ClientAddresses, max_memory: int, max_body: int) -> None:
        self._addresses = addresses
        small = max(max_memory // SMALL_PART, SMALL_BYTES)
        largest = max_body + HEAD_BYTES
        large = max(max_memory - small, largest)
        self._limits = {False: small, True: large}
        self._limits_of_network = {False: max(small // 2, SMALL_BYTES), True: max(large // 2, largest)}
        self.taken: Counter[tuple[bool, str]] = Counter()  # by size, large or not, and network
        self._totals: Counter[bool] = Counter()

    def _key(self, connection: ClientConnection) -> tuple[bool, str]:
        return connection.booked_bytes > SMALL_BYTES, self._addresses.network(connection.client[0])

    def book(self, connection: ClientConnection, size: int) -> None:
        """Note that `connection` takes `size` bytes now."""
        self._add(connection, -connection.booked_bytes)
        connection.booked_bytes = size
        self._add(connection, size)

    def _add(self, connection: ClientConnection, size: int) -> None:
        key = self._key(connection)
        self._totals[key[0]] += size
        self.taken[key] += size
        if not self.taken[key]:
            del self.taken[key]

    def to_end(
        self, connection: ClientConnection, connections: Iterable[ClientConnection]
    ) -> ClientConnection | None:
        """Return which of `connections` to end after `connection` took more memory; None if there is enough.

        That is the largest of the network that takes most, if it is not at work.
        """
        is_large, network = self._key(connection)
        is_proxy = self._addresses.is_proxy(connection.client[0])
        if self.taken[is_large, network] > self._limits_of_network[is_large] and not is_proxy:
            networks = {network}
        elif self._totals[is_large] > self._limits[is_large]:
            networks = {each for size, each in self.taken if size == is_large}
        else:
            return None
        candidates = [
            (self.taken[key], each.booked_bytes, each)
            for each in connections
            if each.stage in CAN_END
            and each.booked_bytes
            and (key := self._key(each))[0] == is_large
            and key[1] in networks
        ]
        return max(candidates, key=lambda entry: entry[:2], default=(0, 0, None))[2]


class ConnectionLoop:
    """Event loop over listening sockets and connections; only `call_soon` may be called by other threads.

    Parameters
    ----------
    table : ConnectionTable
        The open connections.
    memory : MemoryLimits
        Memory that bodies and answers take.
    wake_pipe : tuple of int
        Reading and writing end of a non-blocking pipe; signals write to it too.
    log : logging.Logger
        Log for unexpected errors.
    """

    def __init__(
        self, table: ConnectionTable, memory: MemoryLimits, wake_pipe: tuple[int, int], log: Any
    ) -> None:
        self.table, self.memory, self.log = table, memory, log
        self._reading_end, self._writing_end = wake_pipe
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reading_end, READ, self._run_tasks)

    def call_soon(self, task: Callable[[], None]) -> None:
        """Let the main thread call `task`."""
        self._tasks.put(task)
        with suppress(OSError):  # full, so that the main thread wakes anyway; or closed
            os.write(self._writing_end, b".")

    def _run_tasks(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reading_end, 4096)
        while True:
            try:
                task = self._tasks.get_nowait()
            except Empty:
                return
            self._run_callback(task)

    def step(self, seconds: float) -> None:
        """Handle events; wait for them for some `seconds` at most."""
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, ClientConnection):
                self.guarded(self.proceed, key.data)
            else:
                self._run_callback(key.data)

    def _run_callback(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # the worker goes on whatever happens
            self.log.error("unexpected error: %s", error_location(error))

    def proceed(self, connection: ClientConnection) -> None:
        """Do what is next for a connection on which something happened."""
        raise NotImplementedError

    def guarded(self, action: Callable[[ClientConnection], None], connection: ClientConnection) -> None:
        """Apply `action` to an open `connection`; an error ends the connection, never the worker."""
        if connection.fileno() < 0:
            return
        try:
            action(connection)
        except OSError:
            self.close(connection)
        except Exception as error:
            self.log.error("unexpected error: %s", error_location(error))
            self.close(connection)

    def watch_listener(self, listener: Any, callback: Callable[[], None] | None) -> None:
        """Call `callback` when a client connects to `listener`; None: no longer."""
        if callback:
            self._selector.register(listener, READ, callback)
        else:
            self._selector.unregister(listener)

    def watch(self, connection: ClientConnection, events: int) -> None:
        """Wait for `events` of a `connection`, 0 for none."""
        if events == connection.watched:
            return
        if not connection.watched:
            self._selector.register(connection.sock, events, connection)
        elif events:
            self._selector.modify(connection.sock, events, connection)
        else:
            self._selector.unregister(connection.sock)
        connection.watched = events

    def close(self, connection: ClientConnection) -> None:
        """Close a connection in any stage."""
        if connection.fileno() >= 0:
            self.watch(connection, 0)
        connection.close()
        self.table.remove(connection)
        self.memory.book(connection, 0)
