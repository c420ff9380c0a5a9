"""Limit of concurrent and of waiting requests."""

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock

from service.http.problems import TooManyRequests

MEMORY = 0.1  # weight of the last interval in their mean


class ConcurrencyLimit:
    """Limits requests: `threads` are worked on at the same time, others wait for their turn, in order of arrival.

    A request is refused where `queue` others wait, or where its expected wait is longer than `queue_seconds`: the
    requests before it, times the mean interval at which requests have ended lately.
    """

    def __init__(self, threads: int, queue: int, queue_seconds: float = math.inf) -> None:
        self.threads, self.queue, self.queue_seconds = threads, queue, queue_seconds
        self._lock = Lock()
        self._admitted = 0
        self._turns: deque[Event] = deque()  # of the requests that wait, in order
        self._mean_interval = 0.0  # seconds between the ends of two requests, as long as there are any
        self._last_end = 0.0  # of a request; or start of the first one after none
        self.working = 0  # requests that occupy a slot

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Admit a request until it ends, its body included; raises TooManyRequests above the limit."""
        with self._lock:
            self._check_limits()
            if self._admitted == 0:
                self._last_end = time.monotonic()
            self._admitted += 1
        try:
            yield
        finally:
            with self._lock:
                self._admitted -= 1
                self._note_end(time.monotonic())

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for one of the threads; only admitted requests may."""
        turn = self._take_or_queue()
        if turn is not None:
            turn.wait()
        try:
            yield
        finally:
            self._pass_on()

    @property
    def waiting(self) -> int:
        """Admitted requests that wait for a slot or for the rest of their body."""
        return max(0, self._admitted - self.working)

    def _check_limits(self) -> None:
        """Raise TooManyRequests if one more request would wait too long, or too many wait."""
        before = max(0, self._admitted - self.threads + 1)  # requests that end before this one has a slot
        wait = before * self._mean_interval
        if self._admitted >= self.threads + self.queue:
            reason = f"the service is at its limit of {self.threads + self.queue} requests"
        elif wait > self.queue_seconds:
            reason = f"the request would wait about {wait:.1f} seconds for its turn"
        else:
            return
        raise TooManyRequests(f"{reason}; try again in a moment", retry_after=max(1, math.ceil(wait)))

    def _take_or_queue(self) -> Event | None:
        """Take a free slot and return None; else return the event that is set when one is handed over."""
        with self._lock:
            if self.working < self.threads:
                self.working += 1
                return None
            turn = Event()
            self._turns.append(turn)
            return turn

    def _note_end(self, now: float) -> None:
        self._mean_interval += MEMORY * (now - self._last_end - self._mean_interval)
        self._last_end = now

    def _pass_on(self) -> None:
        """Hand the slot to the request that has waited longest."""
        with self._lock:
            if self._turns:
                self._turns.popleft().set()
            else:
                self.working -= 1
