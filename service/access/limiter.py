"""Back-off for addresses that sent too many wrong tokens."""

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from threading import Lock

from cbir.errors import StorageFull
from service.state.database import StateDatabase
from service.state.errors import StateUnavailable
from service.state.login_rows import add_failure

MAX_NETWORKS = 10_000

log = logging.getLogger(__name__)


class Limiter:
    """Make an address wait after too many failures in a row. Thread-safe.

    State is in memory, for the last 10,000 addresses that failed. With a shared state database the failures at all
    services count: a service learns of those at the others by the first failure of the address at itself. IPv6
    addresses count as their /64 network, since a client can use any address in its own.

    Parameters
    ----------
    max_failures : int
        Failures after which an address has to wait.
    seconds : int
        Maximum time between two failures that count as one series, and the time to wait after the last.
    clock : callable
        Monotonic clock in seconds.
    database : StateDatabase, optional
        Database of the service's state.
    """

    def __init__(
        self,
        max_failures: int,
        seconds: int,
        clock: Callable[[], float] = time.monotonic,
        database: StateDatabase | None = None,
    ) -> None:
        self.max_failures = max_failures
        self.seconds = seconds
        self._clock = clock
        self._database = database if database and database.shared else None
        self._lock = Lock()
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # network: (count, expiry)

    def seconds_to_wait(self, address: str) -> int:
        """Return the seconds until `address` may try again; 0 if it may now."""
        count, expiry = self._failures.get(network_of(address), (0, 0.0))
        remaining = expiry - self._clock()
        return math.ceil(remaining) if count >= self.max_failures and remaining > 0 else 0

    def record_failure(self, address: str) -> None:
        """Count a failure of `address`."""
        now, network = self._clock(), network_of(address)
        elsewhere = self._record_for_all(network)
        with self._lock:
            count, expiry = self._failures.pop(network, (0, 0.0))
            count = max((count if now < expiry else 0) + 1, elsewhere)
            self._failures[network] = count, now + self.seconds
            if len(self._failures) > MAX_NETWORKS:
                self._failures.popitem(last=False)

    def _record_for_all(self, network: str) -> int:
        """Count a failure in the shared database; return the number of those at all services, 0 without one."""
        if self._database is None:
            return 0
        try:
            return add_failure(self._database, network, self.seconds, MAX_NETWORKS)
        except (StateUnavailable, StorageFull) as error:
            log.warning("a failed login is not counted at other services: %s", error)
            return 0


def network_of(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    return str(IPv6Address(int(parsed) >> 64 << 64)) if parsed.version == 6 else str(parsed)
