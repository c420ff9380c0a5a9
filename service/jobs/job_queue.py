"""The queue of jobs in the state database, as the requests of one service use it."""

from cbir.errors import NotFound, StorageFull
from service.client.collection_messages import JobInfo
from service.http.problems import Conflict, TooManyRequests
from service.jobs.job_worker import JobWorker
from service.jobs.stored_jobs import (
    JobRow,
    NewJob,
    add_job,
    count_jobs,
    load_jobs,
    request_cancel,
    request_retry,
)
from service.state.database import StateDatabase
from service.state.schema import StateUnavailable

MAX_WAITING = 100
RETRY_SECONDS = 60  # a job takes minutes


class JobQueue:
    """Jobs of all services that share a state database. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    worker : JobWorker, optional
        Worker of this process, which is notified of new jobs.
    """

    def __init__(self, database: StateDatabase, worker: JobWorker | None = None) -> None:
        self._database = database
        self._worker = worker

    def add(self, new: NewJob, *, once: bool = False) -> JobRow:
        """Store a job. once: unless one of its lane waits or runs, which is returned.

        Raises TooManyRequests if too many are waiting, and StateUnavailable.
        """
        name = add_job(self._database, new, MAX_WAITING, once=once)
        if name is None:
            message = f"{MAX_WAITING} jobs are waiting; try again when some have ended"
            raise TooManyRequests(message, retry_after=RETRY_SECONDS)
        self._wake_worker()
        return self.get(name)

    def all(self) -> list[JobRow]:
        """Return all jobs, the newest first; none where the database cannot be read."""
        try:
            return load_jobs(self._database)
        except (StateUnavailable, StorageFull):
            return []

    def get(self, name: str) -> JobRow:
        """Return the job of that name. Raises NotFound, and StateUnavailable."""
        rows = load_jobs(self._database, name)
        if not rows:
            raise NotFound(f"there is no job {name}")
        return rows[0]

    def cancel(self, name: str) -> JobRow:
        """Cancel a job, whichever process runs it; what it has indexed stays.

        Raises NotFound, and Conflict if it has ended.
        """
        self.get(name)
        if ended := request_cancel(self._database, name):
            raise Conflict(f"the job {name} has ended: {ended}")
        return self.get(name)

    def retry(self, name: str) -> JobRow:
        """Let a job that has failed or was cancelled wait again; it goes on where it stopped.

        Raises NotFound, and Conflict in another state, or if its request is not stored any more.
        """
        self.get(name)
        state = request_retry(self._database, name)
        if state == "forgotten":
            raise Conflict(f"the request of the job {name} is not stored any more; start a new job")
        if state:
            raise Conflict(f"the job {name} has not failed: {state}")
        self._wake_worker()
        return self.get(name)

    def counts(self) -> dict[str, int]:
        """Count the jobs of all services by state; nothing where the database cannot be read."""
        try:
            return count_jobs(self._database)
        except (StateUnavailable, StorageFull):
            return {}

    def _wake_worker(self) -> None:
        if self._worker:
            self._worker.start()


def job_info(row: JobRow) -> JobInfo:
    """Return a job as clients see it."""
    return JobInfo.model_validate(row._asdict())
