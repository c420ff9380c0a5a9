"""Limit of concurrent and of waiting requests, and turns that are shared fairly between callers."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock

from service.http.problems import TooManyRequests

CHECK_SECONDS = 0.1  # between two checks whether a turn is still needed
RECENT_SECONDS = 60.0


class NoTurn(Exception):
    """No place became free in time."""


@dataclass(frozen=True, eq=False)
class _Waiter:
    caller: str
    turn: Event = field(default_factory=Event)


class FairTurns:
    """Lets `places` callers work at the same time. Thread-safe.

    The next turn is for the caller with the fewest places; of several, for the one whose last turn was longest ago.
    A caller leaves the last place free for others while one of them waits, or had a turn in the last minute.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self._lock = Lock()
        self._waiters: deque[_Waiter] = deque()
        self._working: Counter[str] = Counter()
        self._last_turns: dict[str, float] = {}  # when they began or ended

    @property
    def working(self) -> int:
        """Places that are occupied."""
        return self._working.total()

    @contextmanager
    def turn(
        self, caller: str, check: Callable[[], None] | None = None, wait_seconds: float = math.inf
    ) -> Iterator[None]:
        """Wait for a place and occupy it.

        Parameters
        ----------
        caller : str
            Who is to have it.
        check : callable, optional
            Called again and again while waiting; what it raises ends the wait.
        wait_seconds : float
            Time to wait.

        Raises
        ------
        NoTurn
            If no place became free in time.
        """
        waiter = _Waiter(caller)
        with self._lock:
            self._waiters.append(waiter)
            self._hand_out()
        try:
            _wait(waiter.turn, check, wait_seconds)
            yield
        finally:
            with self._lock:
                if waiter.turn.is_set():
                    self._working[caller] -= 1
                    self._working += Counter()  # without zeros
                    self._note(caller)
                else:
                    self._waiters.remove(waiter)
                self._hand_out()

    def before(self, caller: str) -> int:
        """Return how many turns are under way, or would come before the next one of `caller`."""
        with self._lock:
            waiting = Counter(waiter.caller for waiter in self._waiters)
            in_line = waiting[caller]
            return self.working + sum(min(count, in_line) for count in waiting.values())

    def _note(self, caller: str) -> None:
        now = time.monotonic()
        recent = {name: turn for name, turn in self._last_turns.items() if now - turn < RECENT_SECONDS}
        self._last_turns = recent | {caller: now}

    def _hand_out(self) -> None:
        """Give the free places to those whose turn it is."""
        while self._waiters and self.working < self.places:
            waiter = min(self._waiters, key=self._rank)
            caller = waiter.caller
            alone = {*self._last_turns, *self._working, *(other.caller for other in self._waiters)} <= {
                caller
            }
            if not alone and self._working[caller] >= max(1, self.places - 1):
                return
            self._waiters.remove(waiter)
            self._working[caller] += 1
            self._note(caller)
            waiter.turn.set()

    def _rank(self, waiter: _Waiter) -> tuple[int, float]:
        return self._working[waiter.caller], self._last_turns.get(waiter.caller, 0.0)


def _wait(turn: Event, check: Callable[[], None] | None, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not turn.wait(CHECK_SECONDS if check or seconds < math.inf else None):
        if check:
            check()
        if time.monotonic() > until:
            raise NoTurn


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
