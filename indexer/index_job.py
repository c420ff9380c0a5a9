"""Indexing runs from Python, `cbir.index`, and as jobs of the service: spawned processes that send messages."""

import _thread
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, ClassVar, Protocol

from cbir import settings
from cbir.api.main import error_advice
from cbir.errors import CbirError, CollectionBusy, DatabaseUnavailable, InvalidInput
from cbir.store.collection_address import collection_folder
from indexer.index_progress import IndexSummary, NoProgress, ProgressReport, ShownProgress, ThrottledProgress
from indexer.index_request import IndexRequest
from indexer.index_run import run_request

Source = str | os.PathLike[str]
ORPHAN_SECONDS = 5.0  # for a job whose watching process has ended to end in order
CHECK_SECONDS = 1.0  # between two looks at the clock, which may have gone on while the machine slept
LEASE_ENDED = 75  # exit code
INTERRUPTED = "interrupted"


def index_images(
    sources: Source | Sequence[Source],
    collection: Source,
    labels: Source | None = None,
    *,
    profile: Source | None = None,
    weights: Mapping[str, float] | None = None,
    jobs: int | None = None,
    duplicates: bool = False,
    restore: bool = False,
    progress: bool = False,
    ray: str | None = None,
) -> IndexSummary:
    """Add images to a collection, as `cbir index` does. An interrupted call continues when it is repeated.

    Parameters
    ----------
    sources, collection, labels
        As of `cbir.index`.
    profile, weights
        Of a new collection: name of a descriptor or encoder, and factors of its parts.
    jobs : int, optional
        Processes, at least 1, with `ray` on each node; by default the number of cores.
    duplicates, restore : bool
        Also add pictures that the collection has already, and those that were deleted earlier.
    progress : bool
        Show a bar on stderr.
    ray : str, optional
        Address of a Ray cluster that describes the images: "auto", "local", "HOST:PORT" or "ray://HOST:PORT".
    """
    if jobs is not None and jobs < 1:
        raise InvalidInput(f"jobs: at least 1, not {jobs}")
    several = [sources] if isinstance(sources, str | os.PathLike) else sources
    request = IndexRequest.with_settings(
        settings.load(),
        [os.fspath(source) for source in several],
        collection_folder(collection),
        profile=None if profile is None else os.fspath(profile),
        weights=dict(weights or {}),
        labels=None if labels is None else os.fspath(labels),
        jobs=jobs,
        ray=ray,
        duplicates=duplicates,
        restore=restore,
        actor="Python",
    )
    report: ProgressReport = ShownProgress() if progress else NoProgress()
    return run_request(request, report, lambda path, reason: None)


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
    """Last message: the summary, or the error that ended the job.

    busy: the collection could not be written for now: others did, or its database server was down.
    """

    summary: Summary | None = None
    error: str | None = None
    busy: bool = False

    @property
    def is_interrupted(self) -> bool:
        """True if a signal, such as Ctrl-C for all processes of a terminal, or cancelling ended the job early."""
        return self.summary.interrupted if self.summary else self.error == INTERRUPTED


def lease_clock() -> float:
    """Return seconds that all processes of this machine count alike, also while it sleeps where it can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def run_index_job(request: IndexRequest, pipe: Connection) -> None:
    """Index in a process of its own, for the service.

    Sends JobProgress, JobRefusal and JobEnd messages through `pipe`. A number in the other direction is the end of
    the job's lease on `lease_clock`: without a later one this process ends at once then, so that no other worker runs
    the job meanwhile. Any other message cancels the job, as does the end of the other process; the job ends in
    order, and what it has indexed stays.
    """
    progress = ThrottledProgress(pipe.send)
    run_until_cancelled(lambda: run_request(request, progress, partial(_send_refusal, pipe)), pipe)


def run_until_cancelled(work: Callable[[], Summary], pipe: Connection) -> None:
    """Run the work of a job and send its summary, or the error that ended it; see `run_index_job`."""
    _silence()
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # who stops all processes of a group ends this one by its watcher
    threading.Thread(target=_obey, args=(pipe,), daemon=True).start()
    try:
        end = JobEnd(work())
    except KeyboardInterrupt:
        end = JobEnd(error=INTERRUPTED)
    except Exception as error:
        end = end_of(error)
    with suppress(OSError):
        pipe.send(end)


def end_of(error: Exception) -> JobEnd:
    """Return the last message of a job that an error has ended."""
    if isinstance(error, CbirError):
        return JobEnd(error=str(error), busy=isinstance(error, CollectionBusy | DatabaseUnavailable))
    return JobEnd(error=error_advice(error) or "".join(traceback.format_exception_only(error)).strip())


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


def _obey(pipe: Connection) -> None:
    """Interrupt the work when it is cancelled, and end this process at once when its lease ends."""
    lease_end, is_interrupted = float("inf"), False
    while True:
        try:
            if not pipe.poll(min(CHECK_SECONDS, max(0.0, lease_end - lease_clock()))):
                if lease_clock() >= lease_end:
                    break
                continue
            message = pipe.recv()  # those that came while this process started too
        except (EOFError, OSError):
            if not is_interrupted:
                _interrupt()
            time.sleep(max(0.0, min(ORPHAN_SECONDS, lease_end - lease_clock())))
            break
        if isinstance(message, float):
            lease_end = message
        elif not is_interrupted:
            is_interrupted = True
            _interrupt()
    os._exit(LEASE_ENDED)


def _interrupt() -> None:
    if os.name == "posix":
        os.kill(os.getpid(), signal.SIGINT)
    else:  # where os.kill ends the process at once
        _thread.interrupt_main()
