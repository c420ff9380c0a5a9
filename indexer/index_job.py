"""An indexing run as a job of the service: a spawned process that sends messages through a pipe."""

import _thread
import os
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, ClassVar, Protocol

from cbir.errors import CbirError
from cbir.main import error_advice
from indexer.index_request import IndexRequest
from indexer.index_run import run_request
from indexer.throttled_progress import ThrottledProgress


class Summary(Protocol):
    """A dataclass with the counts of a run. interrupted: it was cancelled before its end."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    interrupted: bool


@dataclass(frozen=True)
class JobRefusal:
    """One refused file."""

    path: str
    reason: str


@dataclass(frozen=True)
class JobEnd:
    """Last message: the summary, or the error that ended the job."""

    summary: Summary | None = None
    error: str | None = None


def run_index_job(request: IndexRequest, pipe: Connection) -> None:
    """Index in a process of its own, for the service.

    Sends JobProgress, JobRefusal and JobEnd messages through `pipe`. Any message in the other direction cancels
    the job, as does the end of the other process; the job ends in order, and what it has indexed stays.
    """
    progress = ThrottledProgress(pipe.send)
    run_until_cancelled(lambda: run_request(request, progress, partial(_send_refusal, pipe)), pipe)


def run_until_cancelled(work: Callable[[], Summary], pipe: Connection) -> None:
    """Run the work of a job and send its summary, or the error that ended it; see `run_index_job`."""
    _silence()
    threading.Thread(target=_interrupt_when_cancelled, args=(pipe,), daemon=True).start()
    try:
        end = JobEnd(work())
    except KeyboardInterrupt:
        end = JobEnd(error="interrupted")
    except CbirError as error:
        end = JobEnd(error=str(error))
    except Exception as error:
        end = JobEnd(error=error_advice(error) or "".join(traceback.format_exception_only(error)).strip())
    with suppress(OSError):
        pipe.send(end)


def _silence() -> None:
    """Discard all output: libraries may print what is in a file, and the service's log is no place for it."""
    discarded = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(discarded, descriptor)
    os.close(discarded)


def _send_refusal(pipe: Connection, path: str, reason: str) -> None:
    try:
        pipe.send(JobRefusal(path, reason))
    except OSError:
        raise KeyboardInterrupt from None


def _interrupt_when_cancelled(pipe: Connection) -> None:
    with suppress(EOFError, OSError):
        pipe.recv()
    if os.name == "posix":
        os.kill(os.getpid(), signal.SIGINT)
    else:  # where os.kill ends the process at once
        _thread.interrupt_main()
