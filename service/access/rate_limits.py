"""Limits of callers: requests per minute, and different patients per hour."""

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

from cbir.errors import CbirError
from service.access.shared_allowances import SharedAllowances
from service.state.database import StateDatabase
from service.state.request_counts import name_patients

MAX_CALLERS = 10_000
HOUR = 3600

log = logging.getLogger(__name__)


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
