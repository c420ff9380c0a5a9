"""Indexing jobs, each in a process of its own, one after the other. Jobs are held in memory only."""

import atexit
import dataclasses
import multiprocessing
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.context import SpawnProcess
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, Timer
from typing import Any, NamedTuple

from cbir.client.messages import JobInfo, RefusedFile
from cbir.errors import NotFound
from indexer.index_job import JobEnd, JobRefusal, run_index_job
from indexer.index_request import IndexRequest
from indexer.map_job import MapRequest
from indexer.throttled_progress import JobProgress
from service.http.problems import Conflict, TooManyRequests
from service.ingest.job_recorder import JobRecorder
from service.state.database import StateDatabase
from service.state.job_history import JobRow

MAX_WAITING = 100
RETRY_SECONDS = 60  # a job takes minutes
MAX_ENDED = 200
MAX_REFUSED_FILES = 100  # listed of a job
CANCEL_SECONDS = 30  # for a cancelled job to end in order
ENDED = ("done", "cancelled", "failed")
UNSTORED_ERROR = "the job failed; its error named files, and such names are not stored"

_context = multiprocessing.get_context("spawn")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass
class IndexJob:
    """An indexing run or, of kind "map", the computing of a map.

    run: what the job's process does with `request`. lock_collection: keeps others from writing meanwhile.
    """

    collection: str
    request: IndexRequest | MapRequest
    lock_collection: Callable[[], AbstractContextManager[None]]
    kind: str = "index"
    run: Callable[..., None] = run_index_job
    job: str = field(default_factory=lambda: secrets.token_hex(8))
    state: str = "waiting"
    created: str = field(default_factory=_now)
    ended: str | None = None
    done: int = 0
    total: int | None = None
    refused: int = 0
    refused_files: list[RefusedFile] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    error: str | None = None
    cancelled: bool = False
    process: "JobProcess | None" = None

    def info(self) -> JobInfo:
        """Return the job as clients see it."""
        return JobInfo.model_validate(self, from_attributes=True)

    def row(self) -> JobRow:
        """Return the job as it is stored: without names of files, which may be of patients."""
        summary = self.summary and {name: value for name, value in self.summary.items() if name != "examples"}
        error = self.error
        if error and any(str(source) in error for source in self.request.sources):
            error = UNSTORED_ERROR
        fields = {name: getattr(self, name) for name in JobRow._fields}
        return JobRow(**fields | {"summary": summary, "error": error})

    def end(self, state: str, error: str | None = None) -> None:
        """Enter a final state."""
        self.error, self.ended, self.state = error, _now(), state


class PastJob(NamedTuple):
    """A job that this process does not run: one from before a restart, or of another service."""

    row: JobRow

    @property
    def collection(self) -> str:
        """Name of the collection."""
        return self.row.collection

    @property
    def job(self) -> str:
        """Name of the job."""
        return self.row.job

    def info(self) -> JobInfo:
        """Return the job as clients see it; the names of refused files are not stored."""
        return JobInfo(**self.row._asdict(), refused_files=[])


class JobProcess:
    """The process of a job, and the pipe that its messages come through."""

    def __init__(self, run: Callable[..., None], request: IndexRequest | MapRequest) -> None:
        self._pipe, child_end = _context.Pipe()
        self._process: SpawnProcess = _context.Process(target=run, args=(request, child_end))
        self._process.start()
        child_end.close()  # so that the pipe breaks when the process dies
        atexit.register(self._end_at_exit)  # else Python would wait until all is indexed

    def messages(self) -> Iterator[JobProgress | JobRefusal | JobEnd]:
        """Yield messages until the process ends."""
        with suppress(EOFError, OSError):
            while True:
                yield self._pipe.recv()

    def cancel(self) -> None:
        """Ask the process to end in order, and kill it if it has not after a while."""
        self._ask_to_end()
        timer = Timer(CANCEL_SECONDS, self._process.kill)
        timer.daemon = True
        timer.start()

    def _ask_to_end(self) -> None:
        with suppress(OSError):
            self._pipe.send("cancel")

    def _end_at_exit(self) -> None:
        """Cancel and wait: no thread can be started while Python exits."""
        self._ask_to_end()
        self._process.join(CANCEL_SECONDS)
        self._process.kill()

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        self._process.join()
        atexit.unregister(self._end_at_exit)
        self._pipe.close()
        return self._process.exitcode or 0


class JobQueue:
    """Jobs of one service, and those that the state database has from others. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    """

    def __init__(self, database: StateDatabase) -> None:
        self._recorder = JobRecorder(database, self._active_rows)
        self._jobs: dict[str, IndexJob] = {}
        self._lock = Lock()
        self._queue: SimpleQueue[IndexJob] = SimpleQueue()
        self._thread: Thread | None = None

    def add(self, job: IndexJob) -> None:
        """Queue a job. Raises TooManyRequests if too many are waiting."""
        with self._lock:
            if sum(other.state == "waiting" for other in self._jobs.values()) >= MAX_WAITING:
                message = f"{MAX_WAITING} jobs are waiting; try again when some have ended"
                raise TooManyRequests(message, retry_after=RETRY_SECONDS)
            ended = [name for name, other in self._jobs.items() if other.state in ENDED]
            for name in ended[: max(0, len(ended) - MAX_ENDED)]:
                del self._jobs[name]
            self._jobs[job.job] = job
            if self._thread is None:
                self._thread = Thread(target=self._run_all, name="jobs", daemon=True)
                self._thread.start()
        self._recorder.save(job.row())
        self._queue.put(job)

    def own_jobs(self) -> list[IndexJob]:
        """Return the jobs of this process, the newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def _active_rows(self) -> list[JobRow]:
        return [job.row() for job in self.own_jobs() if job.state not in ENDED]

    def all(self) -> list[IndexJob | PastJob]:
        """Return all jobs, the newest first."""
        current = self.own_jobs()
        names = {job.job for job in current}
        return [*current, *[PastJob(row) for row in self._recorder.past() if row.job not in names]]

    def get(self, name: str) -> IndexJob | PastJob:
        """Return the job of that name. Raises NotFound."""
        job = self._jobs.get(name) or next((job for job in self.all() if job.job == name), None)
        if job is None:
            raise NotFound(f"there is no job {name}")
        return job

    def cancel(self, name: str) -> IndexJob:
        """Cancel a job; what it has indexed stays.

        Raises NotFound, and Conflict if it has ended or runs in another process.
        """
        job = self.get(name)
        if isinstance(job, PastJob):
            end = f"has ended: {job.row.state}" if job.row.state in ENDED else "runs in another service"
            raise Conflict(f"the job {name} {end}")
        with self._lock:
            if job.state in ENDED:
                raise Conflict(f"the job {name} has ended: {job.state}")
            job.cancelled = True
            if job.state == "waiting":
                job.end("cancelled")
            elif job.process:
                job.process.cancel()
        if job.state in ENDED:
            self._recorder.save(job.row())
        return job

    def counts(self) -> dict[str, int]:
        """Count the jobs of this process by state."""
        counts = Counter(job.state for job in self.own_jobs())
        return {state: counts[state] for state in ("waiting", "running", *ENDED)}

    def _run_all(self) -> None:
        while True:
            job = self._queue.get()
            try:
                with job.lock_collection():
                    self._run(job)
            except Exception as error:  # the next job must run all the same
                job.end("failed", f"the job could not be run: {type(error).__name__}")
            self._recorder.save(job.row())

    def _run(self, job: IndexJob) -> None:
        with self._lock:
            if job.cancelled:
                return
            job.state = "running"
            job.process = JobProcess(job.run, job.request)
        self._recorder.save(job.row())
        refused_files: list[RefusedFile] = []
        end = JobEnd()
        for message in job.process.messages():
            if isinstance(message, JobProgress):
                job.done, job.total, job.refused = message.done, message.total, message.refused
            elif isinstance(message, JobEnd):
                end = message
            elif len(refused_files) < MAX_REFUSED_FILES:
                refused_files.append(_relative(message, job.request.sources[0]))
        exit_code = job.process.wait()
        job.refused_files = refused_files
        with self._lock:
            if end.summary is not None:
                job.summary = {**dataclasses.asdict(end.summary), "collection": str(job.request.collection)}
            if job.cancelled:
                job.end("cancelled")
            elif end.summary is not None and not end.summary.interrupted:
                job.end("done")
            else:
                interrupted = end.summary is not None and end.summary.interrupted
                reason = "interrupted" if interrupted else f"the indexing process ended with {exit_code}"
                job.end("failed", end.error or reason)


def _relative(refusal: JobRefusal, folder: Path) -> RefusedFile:
    """Name a refused file relative to the folder of the job."""
    return RefusedFile(
        path=os.path.relpath(refusal.path, folder), reason=refusal.reason.replace(str(folder), ".")
    )
