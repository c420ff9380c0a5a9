"""Limit of concurrent and of waiting requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Semaphore

from service.http.problems import TooManyRequests


class ConcurrencyLimit:
    """Limits requests: `threads` are worked on at the same time, `queue` more may wait."""

    def __init__(self, threads: int, queue: int) -> None:
        self.threads = threads
        self.queue = queue
        self._admissions = Semaphore(threads + queue)
        self._slots = Semaphore(threads)
        self._lock = Lock()
        self._admitted = 0
        self.working = 0  # requests that occupy a slot

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Admit a request until it ends, its body included; raises TooManyRequests above the limit."""
        if not self._admissions.acquire(blocking=False):
            raise TooManyRequests(
                f"the service is at its limit of {self.threads + self.queue} requests; try again in a moment"
            )
        self._count(admitted=1)
        try:
            yield
        finally:
            self._count(admitted=-1)
            self._admissions.release()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for one of the threads; only admitted requests may."""
        with self._slots:
            self._count(working=1)
            try:
                yield
            finally:
                self._count(working=-1)

    @property
    def waiting(self) -> int:
        """Admitted requests that wait for a slot or for the rest of their body."""
        return max(0, self._admitted - self.working)

    def _count(self, admitted: int = 0, working: int = 0) -> None:
        with self._lock:
            self._admitted += admitted
            self.working += working
