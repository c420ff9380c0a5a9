"""Limits of the memory that requests and answers take, and which of them to end beyond it."""

from collections import Counter
from collections.abc import Iterable

from service.server.client_addresses import ClientAddresses
from service.server.client_connection import ClientConnection, Stage

SMALL_BYTES = 2**20  # an eighth of the memory is for those up to this size
SMALL_PART = 8
HEAD_BYTES = 2**20  # of a request, and of the next one that has come with it
CAN_END = (Stage.head, Stage.body, Stage.answering)


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
