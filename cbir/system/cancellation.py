"""Cancellation of long computations, which pass checkpoints between two blocks of work, and the time they take."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import Context, ContextVar
from itertools import islice
from threading import Lock, Thread
from typing import TypeVar

from cbir.errors import QueryCancelled

CHECK_SECONDS = 0.05  # between two calls of `check`, and between two checkpoints of a thread that waits
BATCH = 4096  # items of `with_checkpoints` between two checkpoints

T = TypeVar("T")


class _Limit:
    """Limit of a computation, which may run in several threads."""

    def __init__(self, seconds: float, check: Callable[[], None]) -> None:
        self.seconds = seconds
        self.check = check
        self.end = time.monotonic() + seconds
        self.next_check = 0.0
        self.raised: list[BaseException] = []  # by `check`, in any thread

    def apply(self) -> None:
        now = time.monotonic()
        if now >= self.end:
            raise QueryCancelled(
                f"the search was cancelled after {self.seconds:g} seconds (setting query_seconds); search with "
                "fewer images, with a filter, or without re-ranking (rerank=none)"
            )
        if now >= self.next_check:
            try:
                self.check()
            except BaseException as error:
                self.raised.append(error)
                raise
            self.next_check = now + CHECK_SECONDS


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


@contextmanager
def time_limit(seconds: float, check: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let checkpoints raise QueryCancelled after `seconds`, or what `check` raises.

    `check` is called every 0.05 seconds at most. The limit belongs to the current context: other threads are not
    affected, and `cbir.system.threads.for_each` passes it on to its own.
    """
    token = _limit.set(_Limit(seconds, check))
    try:
        yield
    finally:
        _limit.reset(token)


def checkpoint() -> None:
    """End the computation here if it is to be cancelled; costs a look-up without a time limit."""
    limit = _limit.get()
    if limit is not None:
        limit.apply()


def is_cancellation(error: BaseException) -> bool:
    """Return whether a checkpoint of the current context raised `error` to cancel the computation."""
    limit = _limit.get()
    return isinstance(error, QueryCancelled) or (
        limit is not None and any(one is error for one in limit.raised)
    )


def with_checkpoints(items: Iterable[T]) -> Iterator[T]:
    """Yield `items`, with a checkpoint before every few thousand."""
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH)):
        checkpoint()
        yield from batch


@contextmanager
def locked(lock: Lock) -> Iterator[None]:
    """Hold `lock`; checkpoints are passed while waiting for it."""
    while not lock.acquire(timeout=-1 if _limit.get() is None else CHECK_SECONDS):
        checkpoint()
    try:
        yield
    finally:
        lock.release()


def run_to_end(work: Callable[[], T], lock: Lock) -> T:
    """Return work(), done under `lock`; it is not cancelled with its caller, since others need its result too.

    Under a time limit it runs in a thread of its own, which goes on after the caller was cancelled. Those who wait
    for the lock pass checkpoints, so cancelled callers leave one thread for each lock at most.
    """
    if _limit.get() is None:
        with lock:
            return work()
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            lock.release()
            future.set_exception(error)
        else:
            lock.release()
            future.set_result(result)

    while not lock.acquire(timeout=CHECK_SECONDS):
        checkpoint()
    try:
        Thread(target=Context().run, args=(run,), daemon=True).start()
    except RuntimeError:  # no more threads can be started
        lock.release()
        raise
    while not wait([future], CHECK_SECONDS).done:
        checkpoint()
    return future.result()


class Stopwatch:
    """Milliseconds of named stages."""

    def __init__(self) -> None:
        self.started = self.last = time.perf_counter()
        self.stages: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """Add the time since the last lap to `stage`, and pass a checkpoint."""
        now = time.perf_counter()
        self.stages[stage] = self.stages.get(stage, 0.0) + (now - self.last) * 1000
        self.last = now
        checkpoint()

    def add(self, stage: str, milliseconds: float) -> None:
        """Add time that a stage took before this watch was started."""
        self.stages[stage] = self.stages.get(stage, 0.0) + milliseconds
        self.started -= milliseconds / 1000

    def done(self) -> dict[str, float]:
        """Return all stages, rounded, with their total."""
        total = (time.perf_counter() - self.started) * 1000
        return {stage: round(ms, 3) for stage, ms in (self.stages | {"total": total}).items()}
