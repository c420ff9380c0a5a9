"""An indexing run as a job of the service: a spawned process that sends messages through a pipe."""

import os
import signal
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from cbir.errors import CbirError
from cbir.main import error_advice
from indexer.index_request import IndexRequest, run_request
from indexer.index_run import IndexSummary

MESSAGE_SECONDS = 0.2  # between messages of progress


@dataclass(frozen=True)
class JobProgress:
    """Files done and refused so far. total: None until they are counted."""

    done: int
    total: int | None
    refused: int


@dataclass(frozen=True)
class JobRefusal:
    """One refused file."""

    path: str
    reason: str


@dataclass(frozen=True)
class JobEnd:
    """Last message: the summary, or the error that ended the job."""

    summary: IndexSummary | None = None
    error: str | None = None


def run_index_job(request: IndexRequest, pipe: Connection) -> None:
    """Index in a process of its own, for the service.

    Sends JobProgress, JobRefusal and JobEnd messages through `pipe`. Any message in the other direction cancels
    the job, as does the end of the other process; the job ends in order, and what it has indexed stays.
    """
    threading.Thread(target=_interrupt_when_cancelled, args=(pipe,), daemon=True).start()
    report = PipeReport(pipe)
    try:
        summary = run_request(request, report, report.refuse)
        report.send_progress()
        end = JobEnd(summary)
    except KeyboardInterrupt:
        end = JobEnd(error="interrupted")
    except CbirError as error:
        end = JobEnd(error=str(error))
    except Exception as error:
        end = JobEnd(error=error_advice(error) or "".join(traceback.format_exception_only(error)).strip())
    with suppress(OSError):
        pipe.send(end)


class PipeReport:
    """Sends progress, at most five times a second, and refusals through a pipe.

    If the other process has ended, the run is interrupted and ends in order.
    """

    def __init__(self, pipe: Connection) -> None:
        self.total: int | None = None
        self._pipe = pipe
        self._last_sent = 0.0
        self._latest = JobProgress(0, None, 0)

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Send the progress, unless it has just been sent."""
        self._latest = JobProgress(done, self.total, summary.refused)
        if time.monotonic() - self._last_sent >= MESSAGE_SECONDS:
            self._last_sent = time.monotonic()
            self.send_progress()

    def send_progress(self) -> None:
        """Send the latest progress."""
        self._send(self._latest)

    def refuse(self, path: str, reason: str) -> None:
        """Send a refusal."""
        self._send(JobRefusal(path, reason))

    def _send(self, message: JobProgress | JobRefusal) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise KeyboardInterrupt from None


def _interrupt_when_cancelled(pipe: Connection) -> None:
    with suppress(EOFError, OSError):
        pipe.recv()
    os.kill(os.getpid(), signal.SIGINT)
