"""Processes in which the service reads untrusted files, with limits of their time and memory."""

import logging
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar, cast

from cbir.errors import NotEnoughMemory, UnreadableImage
from cbir.images import Limits
from cbir.ingest.decoder_tasks import describe_bytes, run_limited
from cbir.ingest.description import DescribeTask
from cbir.ingest.process_pool import (
    ProcessPool,
    WorkerDied,
    WorkerTimedOut,
    use_one_thread_silently,
)
from cbir.settings import Settings
from service.access.caller import caller_key
from service.http.concurrency import FairTurns, NoTurn
from service.http.problems import TooManyRequests

Result = TypeVar("Result")
Task = Callable[[], Any]

log = logging.getLogger(__name__)


class Decoders:
    """Runs tasks of `cbir.ingest.decoder_tasks` in decoder processes. Thread-safe.

    limits: of the images that requests send or name.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limits = Limits.from_settings(settings)
        self._pool, self._turns = _shared_pool(
            settings.decoders, settings.decoder_bytes, settings.decode_seconds
        )

    def run(self, task: Callable[[], Result], check: Callable[[], None] = lambda: None) -> Result:
        """Run a task and wait for its result; callers take turns (see `FairTurns`).

        Parameters
        ----------
        task : callable
            A function that can be imported, with its arguments: it is pickled.
        check : callable
            Called while the task waits or runs; if it raises, the task is killed.

        Raises
        ------
        TooManyRequests
            If all processes were busy for `decode_seconds`.
        UnreadableImage
            If the task took longer than that, or its process died.
        """
        seconds = self.settings.decode_seconds
        try:
            with self._turns.turn(caller_key(), check, seconds):
                return cast(Result, self._pool.run(task, check))
        except NoTurn:
            raise TooManyRequests("all decoders are busy with other images; try again in a moment") from None
        except WorkerTimedOut:
            log.warning("an image was not decoded in %g seconds (decode_seconds)", seconds)
            raise UnreadableImage(
                f"the image takes longer than {seconds:g} seconds to decode (decode_seconds); make it smaller"
            ) from None
        except WorkerDied:
            log.warning("an image made its decoder end")
            raise UnreadableImage("the image makes its decoder crash; export it again") from None

    def start(self) -> None:
        """Start all processes now."""
        self._pool.start()

    def warm_up(self, task: DescribeTask, example: bytes) -> None:
        """Let every process describe the file `example`, so that no request waits for imports."""
        describe = partial(describe_bytes, example, "the example", "", task, False)
        for future in [self._pool.submit(describe) for _ in range(self._pool.jobs)]:
            future.result()


@cache
def _shared_pool(jobs: int, memory_bytes: int, seconds: float) -> tuple[ProcessPool[Task, Any], FairTurns]:
    """Return the decoders of this process and the turns at them; apps with equal settings share them."""
    run = partial(run_limited, memory_bytes=memory_bytes)
    return ProcessPool(run, jobs, use_one_thread_silently, seconds, (NotEnoughMemory,)), FairTurns(jobs)
