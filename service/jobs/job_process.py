"""The process of a job, and the pipe that its messages come through."""

import multiprocessing
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from threading import Event, Thread

from indexer.index_job import JobEnd, JobRefusal, lease_clock
from indexer.index_progress import JobProgress
from service.jobs.job_work import JobWork

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
