"""Wait at the start for the servers that a service needs, then ask in the background whether they answer."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

from cbir.errors import CbirError, DatabaseUnavailable, StorageFull
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.postgresql.postgresql_database import may_pass
from cbir.store.upkeep.restore import open_or_fallback
from cbir.system.console import echo
from service.state.database import open_state
from service.state.schema import StateUnavailable

WAIT_SECONDS = 2.0  # between two tries at the start
ANSWER_SECONDS = 3.0  # after which a part that has not answered counts as down


def wait_for_state(settings: Settings, pause: Callable[[float], object] = time.sleep) -> None:
    """Wait until a state database in PostgreSQL answers: without it, no caller could be let in.

    One in a file is created, so that its absence beside an audit log with lines means that it was lost.

    Parameters
    ----------
    settings : Settings
    pause : callable
        Waits for some seconds.

    Raises
    ------
    StateUnavailable
        If waiting does not help, as with a wrong password.
    """
    database, reason = open_state(settings), None
    if not database.shared:
        with suppress(StateUnavailable, StorageFull):  # `/readyz` and the log say why
            database.check()
    while database.shared:
        try:
            database.check()
            return
        except StateUnavailable as error:
            if not may_pass(str(error)):
                raise
            if reason is None:
                reason = str(error)
                echo(f"waiting: {reason}; trying again every {WAIT_SECONDS:.0f} seconds", err=True)
        pause(WAIT_SECONDS)


def check_collections(folders: Sequence[Path], check: Callable[[Path, Collection], None]) -> None:
    """Open collections to report mistakes before anything is served; one whose server is down is opened later.

    Parameters
    ----------
    folders : sequence of Path
        Folders of the collections.
    check : callable
        Called with each folder and its open collection.

    Raises
    ------
    CbirError
        If a collection is missing or cannot be used; a server that does not answer is reported on standard error.
    """
    for folder in folders:
        try:
            with open_or_fallback(folder) as opened:
                check(folder, opened)
        except DatabaseUnavailable as error:
            if not may_pass(str(error)):
                raise
            echo(f"starting without it: {error}; it is used as soon as it answers", err=True)


class PartCheck:
    """Last answer of one part that the service depends on; asks it again, in a thread, when that is old. Thread-safe.

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
