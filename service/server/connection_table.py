"""All open connections, and which of them to drop when there is no room for more."""

import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from service.server.client_addresses import ClientAddresses
from service.server.client_connection import ClientConnection, Stage

MAX_WAITING_PER_NETWORK = 256
FEW = 8  # connections of a browser; clients with no more than these count alike
YOUNG_SECONDS = 1.0
SPARED = {Stage.body: 1, Stage.idle: 2}


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
