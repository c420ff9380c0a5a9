"""The process of a job that this worker has claimed, and watching it: progress, lease, cancelling, its end."""

import dataclasses
import logging
import multiprocessing
import os
import signal
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Event, Thread
from typing import Any

from cbir.errors import StorageFull
from indexer.index_job import LEASE_ENDED, JobEnd, JobRefusal, lease_clock
from indexer.index_progress import NAMING_FILES, JobProgress
from service.client.collection_messages import RefusedFile
from service.jobs.job_claims import JobClaim, JobResult, finish_job, hand_back, renew_claim
from service.jobs.job_work import JobWork
from service.state.database import StateDatabase
from service.state.schema import StateUnavailable

CHECK_SECONDS = 1.0  # between two looks at the clock
_context = multiprocessing.get_context("spawn")


class JobProcess:
    """A process that ends with its lease at the latest: by itself, or killed by a thread of this process.

    Parameters
    ----------
    work : JobWork
        What the process does.
    lease_end : float
        Of `lease_clock`, until it is extended.
    """

    def __init__(self, work: JobWork, lease_end: float) -> None:
        self._pipe, child_end = _context.Pipe()
        self._process: SpawnProcess = _context.Process(target=work.run, args=(work.request, child_end))
        self._process.start()
        child_end.close()  # so that the pipe breaks when the process dies
        self._has_ended = Event()
        self.extend(lease_end)
        Thread(target=self._kill_at_lease_end, name="job-lease", daemon=True).start()

    def extend(self, lease_end: float) -> None:
        """Let the process run until then."""
        self._lease_end = lease_end
        self._send(lease_end)

    def cancel(self) -> None:
        """Ask the process to end in order."""
        self._send("cancel")

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def receive(self, seconds: float) -> JobProgress | JobRefusal | JobEnd | None:
        """Return the next message, None if none comes in time; raises EOFError or OSError at the process's end."""
        message: JobProgress | JobRefusal | JobEnd | None = (
            self._pipe.recv() if self._pipe.poll(seconds) else None
        )
        return message

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        self._process.join()
        self._has_ended.set()
        self._pipe.close()
        return self._process.exitcode or 0

    def _send(self, message: float | str) -> None:
        with suppress(OSError):
            self._pipe.send(message)

    def _kill_at_lease_end(self) -> None:
        while not self._has_ended.wait(min(CHECK_SECONDS, max(0.0, self._lease_end - lease_clock()))):
            if lease_clock() >= self._lease_end:
                self._process.kill()
                return


RENEW_SECONDS = 1.0  # between two renewals of a lease, at most
RENEWALS = 30  # in a lease, at least
MARGIN = 1 / 3  # of a lease: a process that cannot renew it ends so long before others may take the job
MAX_REFUSED_FILES = 100  # listed of a job
CANCEL_SECONDS = 30.0  # for a cancelled job to end in order
BUSY_PAUSE_MS = 5_000  # before a job is tried again whose collection could not be written
POLL_SECONDS = 0.2
STOPPED_EXIT_CODES = (-signal.SIGTERM, -signal.SIGINT)  # of who stops all processes of a group
UNSTORED_ERROR = "the job failed; its error, which may name files, was kept for a week"

log = logging.getLogger(__name__)


class JobWatch:
    """One attempt at a job.

    Parameters
    ----------
    database : StateDatabase
    claim : JobClaim
    work : JobWork
        What its process does.
    claimed : float
        Time of `lease_clock` before the job was claimed.
    lease_seconds : float
        Length of a lease.
    is_stopping : Event
        Set when the worker is to end: the job is handed back.
    stop_seconds : float
        Time for it to end in order then.
    """

    def __init__(
        self,
        database: StateDatabase,
        claim: JobClaim,
        work: JobWork,
        claimed: float,
        lease_seconds: float,
        is_stopping: Event,
        stop_seconds: float,
    ) -> None:
        self._database, self._claim, self._work = database, claim, work
        self._lease_seconds = lease_seconds
        self._is_stopping, self._stop_seconds = is_stopping, stop_seconds
        self._lease_end = claimed + lease_seconds * (1 - MARGIN)
        self._progress = JobProgress(0, None, 0)
        self._refused: list[dict[str, str]] = []
        self._stored_refused = 0
        self._end = JobEnd()
        self._is_cancelled = self._is_lost = False
        self._kill_at = float("inf")
        self._renew_seconds = min(RENEW_SECONDS, lease_seconds / RENEWALS)

    def run(self) -> None:
        """Run the job's process to its end, and store the result unless the lease was lost."""
        process = JobProcess(self._work, self._lease_end)
        try:
            self._watch(process)
        except BaseException:
            process.kill()
            raise
        finally:
            exit_code = process.wait()
        self._store_end(exit_code)

    def _watch(self, process: JobProcess) -> None:
        next_renewal = lease_clock()
        while self._receive(process):
            now = lease_clock()
            if now >= next_renewal and not self._is_lost:
                next_renewal = now + self._renew_seconds
                self._renew(process)
            if self._is_stopping.is_set() and self._kill_at == float("inf"):
                self._ask_to_end(process, self._stop_seconds)
            if now >= self._kill_at:
                process.kill()

    def _receive(self, process: JobProcess) -> bool:
        """Take the next message of the process, if one comes soon; return False once it has ended."""
        try:
            message = process.receive(min(POLL_SECONDS, self._renew_seconds))
        except (EOFError, OSError):
            return False
        if isinstance(message, JobProgress):
            self._progress = message
        elif isinstance(message, JobEnd):
            self._end = message
        elif isinstance(message, JobRefusal) and len(self._refused) < MAX_REFUSED_FILES:
            self._refused.append(_relative(message, self._work.request.sources[0]))
        return True

    def _renew(self, process: JobProcess) -> None:
        sent_at = lease_clock()
        try:
            lease_ms = int(self._lease_seconds * 1000)
            answer = renew_claim(self._database, self._claim, self._progress, self._new_refused(), lease_ms)
        except (StateUnavailable, StorageFull):
            return  # the process ends in time unless a later renewal succeeds
        self._stored_refused = len(self._refused)
        if answer is None:
            self._is_lost = True
            process.kill()
            return
        self._lease_end = sent_at + self._lease_seconds * (1 - MARGIN)
        process.extend(self._lease_end)
        if answer and not self._is_cancelled:
            self._is_cancelled = True
            self._ask_to_end(process, CANCEL_SECONDS)

    def _ask_to_end(self, process: JobProcess, seconds: float) -> None:
        if self._kill_at == float("inf"):
            process.cancel()
        self._kill_at = min(self._kill_at, lease_clock() + seconds)

    def _new_refused(self) -> list[dict[str, str]] | None:
        return self._refused if len(self._refused) > self._stored_refused else None

    def _store_end(self, exit_code: int) -> None:
        """Store the result; tried again until others may have the job."""
        while not self._is_lost:
            try:
                self._is_lost = not self._store_result(exit_code)
                break
            except (StateUnavailable, StorageFull):
                if lease_clock() >= self._lease_end + self._lease_seconds * MARGIN:
                    self._is_lost = True
                Event().wait(POLL_SECONDS)
        if self._is_lost:
            log.warning("the job %s is left to another worker: its lease has ended", self._claim.job)

    def _store_result(self, exit_code: int) -> bool:
        summary = self._end.summary
        is_complete = summary is not None and not summary.interrupted
        if self._end.busy and not self._is_cancelled:
            hand_back(self._database, self._claim, BUSY_PAUSE_MS)
            return True
        is_stopped = self._is_stopping.is_set() or self._end.is_interrupted or exit_code in STOPPED_EXIT_CODES
        if is_stopped and not is_complete and not self._is_cancelled:
            hand_back(self._database, self._claim)
            return True
        if self._end == JobEnd() and (exit_code == LEASE_ENDED or lease_clock() >= self._lease_end):
            return False  # the process has ended with its lease: it has not failed
        return finish_job(self._database, self._claim, self._result(exit_code, is_complete))

    def _result(self, exit_code: int, is_complete: bool) -> JobResult:
        summary: dict[str, Any] | None = None
        state, error = "done", None
        if self._end.summary is not None:
            summary = {
                **dataclasses.asdict(self._end.summary),
                "collection": str(self._work.request.collection),
            }
        if self._is_cancelled:
            state = "cancelled"
        elif not is_complete:
            state, error = "failed", self._end.error or f"the indexing process ended with {exit_code}"
        public_summary = summary and {
            name: value for name, value in summary.items() if name not in NAMING_FILES
        }
        public_error = (
            UNSTORED_ERROR if self._end.error else error
        )  # no text of a library is known to name none
        return JobResult(
            state, self._progress, self._new_refused(), summary, public_summary, error, public_error
        )


def _relative(refusal: JobRefusal, folder: Path) -> dict[str, str]:
    """Name a refused file relative to the folder of the job."""
    path = os.path.relpath(refusal.path, folder)
    return RefusedFile(path=path, reason=refusal.reason.replace(str(folder), ".")).model_dump()
