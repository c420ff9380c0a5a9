"""Check in the background whether a part that the service depends on answers, so that requests do not wait."""

import time
from collections.abc import Callable
from threading import Event, Lock, Thread

from cbir.errors import CbirError

ANSWER_SECONDS = 3.0  # after which a part that has not answered counts as down


class PartCheck:
    """Last answer of one part; asks it again, in a thread, when that is old. Thread-safe.

    Parameters
    ----------
    name : str
        Name of the part, for everyone.
    check : callable
        Raises CbirError if the part does not answer.
    seconds : float
        Time for which an answer holds.
    """

    def __init__(self, name: str, check: Callable[[], object], seconds: float) -> None:
        self.name = name
        self._check = check
        self._seconds = seconds
        self._lock = Lock()
        self._asked_at = float("-inf")  # on the monotonic clock
        self._answered = Event()  # the part has been asked once
        self._asking = self._down = False

    def is_down(self) -> bool:
        """Return True if the part did not answer when it was last asked; waits for its first answer only."""
        with self._lock:
            now = time.monotonic()
            if not self._asking and now >= self._asked_at + self._seconds:
                self._asking, self._asked_at = True, now
                Thread(target=self._ask, name=f"check of the {self.name}", daemon=True).start()
        self._answered.wait(ANSWER_SECONDS)
        return self._down or (self._asking and time.monotonic() >= self._asked_at + ANSWER_SECONDS)

    def _ask(self) -> None:
        try:
            self._check()
            self._down = False
        except CbirError:  # requests that need the part log the reason
            self._down = True
        finally:
            self._asking = False
            self._answered.set()
