"""Keeps the states of jobs in the state database while they run, so that they are known after a restart."""

import logging
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread

from cbir.errors import StorageFull
from service.state.database import StateDatabase
from service.state.errors import StateUnavailable
from service.state.job_history import LEASE_SECONDS, JobRow, load_jobs, save_jobs

RENEW_SECONDS = LEASE_SECONDS / 3

log = logging.getLogger(__name__)


class JobRecorder:
    """Writer of the jobs of one service. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    active : callable
        Returns the jobs that have not ended.
    """

    def __init__(self, database: StateDatabase, active: Callable[[], list[JobRow]]) -> None:
        self._database = database
        self._active = active
        self._lock = Lock()
        self._thread: Thread | None = None

    def save(self, *rows: JobRow) -> None:
        """Store the states of jobs; a failure is logged and harms no job."""
        with self._lock:
            self._write(rows)
            if self._thread is None:
                self._thread = Thread(target=self._renew, name="job-recorder", daemon=True)
                self._thread.start()

    def _write(self, rows: Iterable[JobRow]) -> None:
        try:
            save_jobs(self._database, rows)
        except (StateUnavailable, StorageFull) as error:
            log.warning("jobs are not stored: %s", error)

    def _renew(self) -> None:
        """Renew the jobs that have not ended, with their progress, until all have."""
        while True:
            Event().wait(RENEW_SECONDS)
            with self._lock:  # else the end of a job that is stored meanwhile would be overwritten
                rows = self._active()
                if not rows:
                    self._thread = None
                    return
                self._write(rows)

    def past(self) -> list[JobRow]:
        """Return the stored jobs, newest first; none where the database cannot be read."""
        try:
            return load_jobs(self._database)
        except (StateUnavailable, StorageFull):
            return []
