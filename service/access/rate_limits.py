"""Limits of callers: requests per minute, different patients per hour, and wrong tokens in a row."""

import logging
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address
from threading import Event, Lock, Thread

from cbir.errors import CbirError, StorageFull
from service.state.access_rows import add_failure
from service.state.database import StateDatabase
from service.state.request_counts import forget_full_allowances, name_patients, spend_requests
from service.state.schema import StateUnavailable

EXCHANGE_SECONDS = 1.0
EXCHANGES_PER_CLEANING = 300
MAX_EXCHANGED = 1000  # of one statement
MAX_CALLERS = 10_000
HOUR = 3600
MAX_NETWORKS = 10_000

log = logging.getLogger(__name__)


class SharedAllowances:
    """Takes requests from allowances in the state database, in a thread that ends when no more come. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state, in PostgreSQL.
    name : str
        Name of the limit.
    per_minute : int
        Size of an allowance.
    changed : callable
        Called with a caller and what remains of its allowance, after each exchange.
    """

    def __init__(
        self, database: StateDatabase, name: str, per_minute: int, changed: Callable[[str, float], None]
    ) -> None:
        self._database = database
        self._prefix = f"{name} "
        self._per_minute = per_minute
        self._changed = changed
        self._lock = Lock()
        self._spent: Counter[str] = Counter()
        self._thread: Thread | None = None
        self._exchanges = 0

    def spend(self, caller: str) -> None:
        """Take a request from the allowance of `caller`, at the next exchange."""
        with self._lock:
            self._spent[caller] += 1
            if self._thread is None:
                self._thread = Thread(target=self._run, name="shared-allowances", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._exchange()
            Event().wait(EXCHANGE_SECONDS)
            with self._lock:
                if not self._spent:
                    self._thread = None
                    return

    def _exchange(self) -> None:
        with self._lock:
            spent = dict(self._spent.most_common(MAX_EXCHANGED))
        if not spent:
            return
        try:
            by_name = {self._prefix + caller: count for caller, count in spent.items()}
            remaining = spend_requests(self._database, by_name, self._per_minute)
            self._clean()
        except CbirError as error:
            log.warning("requests are counted at this service only: %s", error)
            remaining = {}
        with self._lock:
            self._spent -= Counter(spent)  # what is not exchanged is too old by the next time
            unsent = {caller: self._spent[caller] for caller in spent}
        for caller, count in unsent.items():
            if self._prefix + caller in remaining:
                self._changed(caller, remaining[self._prefix + caller] - count)

    def _clean(self) -> None:
        self._exchanges += 1
        if self._exchanges % EXCHANGES_PER_CLEANING == 0:
            forget_full_allowances(self._database)


class RequestRate:
    """Requests per minute of each caller, who may send as many at once after a pause. Thread-safe.

    With a shared state database the requests at all services count. Their numbers are exchanged every second, so a
    caller gets at most as many more as the services answer it in a second. While the database does not answer, each
    service counts its own.

    Parameters
    ----------
    per_minute : int
        Requests that a caller may send.
    clock : callable
        Monotonic clock in seconds.
    database : StateDatabase, optional
        Database of the service's state.
    name : str
        Name of the limit in the database.
    """

    def __init__(
        self,
        per_minute: int,
        clock: Callable[[], float] = time.monotonic,
        database: StateDatabase | None = None,
        name: str = "requests",
    ) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._lock = Lock()
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, as of
        self._shared: SharedAllowances | None = None
        if database and database.shared:
            self._shared = SharedAllowances(database, name, per_minute, self._set_remaining)

    def seconds_to_wait(self, caller: str) -> int:
        """Count a request of `caller`; return 0 if it may be handled, else the seconds until the next may be."""
        now, per_second = self._clock(), self.per_minute / 60
        with self._lock:
            left, then = self._allowances.pop(caller, (float(self.per_minute), now))
            left = min(float(self.per_minute), left + (now - then) * per_second)
            allowed = left >= 1
            self._allowances[caller] = left - allowed, now
            if len(self._allowances) > MAX_CALLERS:
                self._allowances.popitem(last=False)
        if allowed and self._shared:
            self._shared.spend(caller)
        return 0 if allowed else max(1, math.ceil((1 - left) / per_second))

    def _set_remaining(self, caller: str, remaining: float) -> None:
        """Replace what is left of the allowance of `caller` by what all services have left of it."""
        with self._lock:
            if caller in self._allowances:
                self._allowances[caller] = remaining, self._clock()


class PatientRate:
    """Different patients that each caller may name per hour; one that was named before is free. Thread-safe.

    With a shared state database those named at all services count, exactly; while it does not answer, each service
    counts its own.

    Parameters
    ----------
    per_hour : int
        Patients that a caller may name.
    clock : callable
        Monotonic clock in seconds.
    database : StateDatabase, optional
        Database of the service's state.
    name : str
        Name of the limit in the database.
    """

    def __init__(
        self,
        per_hour: int,
        clock: Callable[[], float] = time.monotonic,
        database: StateDatabase | None = None,
        name: str = "patients",
    ) -> None:
        self.per_hour = per_hour
        self._clock = clock
        self._database = database if database and database.shared else None
        self._name = name
        self._lock = Lock()
        self._named: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()  # by caller: key, time

    def seconds_to_wait(self, caller: str, patient_keys: Iterable[str]) -> int:
        """Count the patients that `caller` names; return 0 if they may be used, else the seconds to wait.

        Patients that exceed the limit are not counted.
        """
        now = self._clock()
        with self._lock:
            patients = self._named_within_an_hour(caller, now)
            new = set(patient_keys) - patients.keys()
        wait = self._wait_for_all(caller, new) if new else 0
        with self._lock:
            if wait is None:
                wait = _wait_for_own(patients, new, self.per_hour, now)
            if not wait:
                patients.update(dict.fromkeys(new - patients.keys(), now))
        return wait

    def _named_within_an_hour(self, caller: str, now: float) -> OrderedDict[str, float]:
        """Return the patients that `caller` has named here; drops the callers beyond 10,000."""
        patients = self._named.setdefault(caller, OrderedDict())
        self._named.move_to_end(caller)
        while patients and next(iter(patients.values())) <= now - HOUR:
            patients.popitem(last=False)
        if len(self._named) > MAX_CALLERS:
            self._named.popitem(last=False)
        return patients

    def _wait_for_all(self, caller: str, new: set[str]) -> int | None:
        """Return the seconds to wait by the counts of all services; None if they are not known."""
        if self._database is None:
            return None
        try:
            return name_patients(self._database, f"{self._name} {caller}", new, self.per_hour)
        except CbirError as error:
            log.warning("patients are counted at this service only: %s", error)
            return None


def _wait_for_own(patients: OrderedDict[str, float], new: set[str], per_hour: int, now: float) -> int:
    """Return the seconds to wait by the patients that the caller has `named` at this service."""
    excess = len(patients) + len(new - patients.keys()) - per_hour
    if excess > 0 and patients:
        oldest = list(patients.values())[: min(excess, len(patients))]
        return max(1, math.ceil(oldest[-1] + HOUR - now))
    return HOUR if excess > 0 else 0


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
