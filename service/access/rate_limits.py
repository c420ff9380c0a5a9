"""Limits of callers: requests per minute, and different patients per hour."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

MAX_CALLERS = 10_000
HOUR = 3600


class RequestRate:
    """Requests per minute of each caller, who may send as many at once after a pause. Thread-safe.

    Parameters
    ----------
    per_minute : int
        Requests that a caller may send.
    clock : callable
        Monotonic clock in seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._lock = Lock()
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, as of

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
        return 0 if allowed else max(1, math.ceil((1 - left) / per_second))


class PatientRate:
    """Different patients that each caller may name per hour; one that was named before is free. Thread-safe.

    Parameters
    ----------
    per_hour : int
        Patients that a caller may name.
    clock : callable
        Monotonic clock in seconds.
    """

    def __init__(self, per_hour: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_hour = per_hour
        self._clock = clock
        self._lock = Lock()
        self._named: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()  # by caller: key, time

    def seconds_to_wait(self, caller: str, patient_keys: Iterable[str]) -> int:
        """Count the patients that `caller` names; return 0 if they may be used, else the seconds to wait.

        Patients that exceed the limit are not counted.
        """
        now = self._clock()
        with self._lock:
            named = self._named.setdefault(caller, OrderedDict())
            self._named.move_to_end(caller)
            while named and next(iter(named.values())) <= now - HOUR:
                named.popitem(last=False)
            new = set(patient_keys) - named.keys()
            excess = len(named) + len(new) - self.per_hour
            if excess > 0 and named:
                oldest = list(named.values())[: min(excess, len(named))]
                return max(1, math.ceil(oldest[-1] + HOUR - now))
            if excess > 0:
                return HOUR
            named.update(dict.fromkeys(new, now))
            if len(self._named) > MAX_CALLERS:
                self._named.popitem(last=False)
        return 0
