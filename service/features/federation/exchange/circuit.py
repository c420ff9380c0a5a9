"""Circuit breaker: a site that failed several times in a row is left alone for a while."""

import time
from collections.abc import Callable
from threading import Lock

FAILURES = 3  # in a row, after which a site is left alone
PAUSE_SECONDS = 30.0


class CircuitBreaker:
    """Counts the failures of one site. Thread-safe.

    Parameters
    ----------
    failures : int
        Failures in a row after which the site is left alone.
    pause : float
        Seconds until one request tries it again.
    clock : callable
        Monotonic clock in seconds.
    """

    def __init__(
        self,
        failures: int = FAILURES,
        pause: float = PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures, self._pause, self._clock = failures, pause, clock
        self._lock = Lock()
        self._count, self._until = 0, 0.0

    def seconds_to_wait(self) -> float:
        """Return 0 if the site may be asked now; of several callers after a pause, one gets it."""
        with self._lock:
            if self._count < self._failures:
                return 0.0
            remaining = self._until - self._clock()
            if remaining > 0:
                return remaining
            self._until = self._clock() + self._pause  # this request tries; others wait for how it ends
            return 0.0

    def record(self, answered: bool) -> None:
        """Note whether the site has answered."""
        with self._lock:
            self._count = 0 if answered else self._count + 1
            self._until = self._clock() + self._pause
