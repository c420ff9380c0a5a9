"""How often one address may try in vain."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from threading import Lock

MOST_ADDRESSES = 10_000


class Limiter:
    """After `most` failures within `seconds` of each other, an address waits for as long. Thread-safe.

    Kept in memory for the last 10,000 addresses that failed; of IPv6, for networks of 64 bits, since one
    client has as many addresses as it likes in its own.
    """

    def __init__(self, most: int, seconds: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.seconds = seconds
        self._clock = clock
        self._lock = Lock()
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how often, until when it counts

    def wait(self, address: str) -> int:
        """Seconds until the address may try again; 0 where it may now."""
        count, until = self._failed.get(_network(address), (0, 0.0))
        left = until - self._clock()
        return math.ceil(left) if count >= self.most and left > 0 else 0

    def failed(self, address: str) -> None:
        """Count a failure."""
        now, network = self._clock(), _network(address)
        with self._lock:
            count, until = self._failed.pop(network, (0, 0.0))
            self._failed[network] = (count if now < until else 0) + 1, now + self.seconds
            if len(self._failed) > MOST_ADDRESSES:
                self._failed.popitem(last=False)


def _network(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    return str(IPv6Address(int(parsed) >> 64 << 64)) if parsed.version == 6 else str(parsed)
