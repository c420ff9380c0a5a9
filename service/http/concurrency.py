"""Limit of concurrent and of waiting requests."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from service.http.fair_turns import FairTurns
from service.http.problems import TooManyRequests

MEMORY = 0.1  # weight of the last interval in their mean


class ConcurrencyLimit:
    """Limits requests: `threads` are worked on at the same time, others wait for their turn (see `FairTurns`).

    A request is refused where `queue` others wait, where its caller alone has three quarters of all requests, or
    where its expected wait for a thread is longer than `queue_seconds`: the requests that have one or would have one
    before it, times the mean interval at which they have ended lately.

    Parameters
    ----------
    threads : int
        Requests worked on at the same time.
    queue : int
        Requests that may wait.
    queue_seconds : float
        Longest expected wait.
    caller : callable
        Returns the name of the sender of the current request.
    """

    def __init__(
        self,
        threads: int,
        queue: int,
        queue_seconds: float = math.inf,
        caller: Callable[[], str] = lambda: "",
    ) -> None:
        self.threads, self.queue, self.queue_seconds = threads, queue, queue_seconds
        self._caller = caller
        self._lock = Lock()
        self._admitted: Counter[str] = Counter()
        self._turns = FairTurns(threads)
        self._mean_interval = 0.0  # seconds between the ends of two slots, as long as there are any
        self._last_end = 0.0  # of a slot; or start of the first one after none

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Admit a request until it ends, its body included; raises TooManyRequests above the limit."""
        caller = self._caller()
        with self._lock:
            self._check_limits(caller)
            self._admitted[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._admitted[caller] -= 1
                self._admitted += Counter()  # without zeros

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for one of the threads; only admitted requests may."""
        with self._turns.turn(self._caller()):
            with self._lock:
                if self.working == 1:
                    self._last_end = time.monotonic()
            try:
                yield
            finally:
                with self._lock:
                    now = time.monotonic()
                    self._mean_interval += MEMORY * (now - self._last_end - self._mean_interval)
                    self._last_end = now

    @property
    def working(self) -> int:
        """Requests that occupy a slot."""
        return self._turns.working

    @property
    def waiting(self) -> int:
        """Admitted requests that wait for a slot, a decoder or the rest of their body."""
        return max(0, self._admitted.total() - self.working)

    def _check_limits(self, caller: str) -> None:
        """Raise TooManyRequests if one more request would wait too long, or too many wait."""
        before = max(0, self._turns.before(caller) - self.threads + 1)  # that end before this one has a slot
        wait, total = before * self._mean_interval, self.threads + self.queue
        if self._admitted.total() >= total:
            reason = f"the service is at its limit of {total} requests"
        elif self._admitted[caller] >= total - total // 4:
            reason = f"the caller is at its limit of {total - total // 4} requests"
        elif wait > self.queue_seconds:
            reason = f"the request would wait about {wait:.1f} seconds for its turn"
        else:
            return
        raise TooManyRequests(f"{reason}; try again in a moment", retry_after=max(1, math.ceil(wait)))
