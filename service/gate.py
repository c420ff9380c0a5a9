"""How many requests are worked on, and how many may wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Semaphore

from service.problems import TooManyRequests


class Gate:
    """At most `threads` requests are worked on side by side, and at most `queue` wait for their turn."""

    def __init__(self, threads: int, queue: int) -> None:
        self.threads = threads
        self.queue = queue
        self._places = Semaphore(threads + queue)
        self._turns = Semaphore(threads)
        self._counting = Lock()
        self._held = 0
        self.working = 0  # requests that have a turn

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place while a request is under way, its body included; raises TooManyRequests for one too many."""
        if not self._places.acquire(blocking=False):
            raise TooManyRequests(
                f"{self.threads + self.queue} requests are under way, which is all the service takes on; "
                "try again in a moment"
            )
        self._count(held=1)
        try:
            yield
        finally:
            self._count(held=-1)
            self._places.release()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one of the threads; for those who hold a place."""
        with self._turns:
            self._count(working=1)
            try:
                yield
            finally:
                self._count(working=-1)

    @property
    def waiting(self) -> int:
        """Requests that hold a place and wait for their turn, or for their own bodies."""
        return max(0, self._held - self.working)

    def _count(self, held: int = 0, working: int = 0) -> None:
        with self._counting:
            self._held += held
            self.working += working
