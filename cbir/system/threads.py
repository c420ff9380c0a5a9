"""Parallel work on the chunks of a gallery, with one BLAS thread per worker; its cancellation, and the time it takes.

Long computations pass checkpoints between two blocks of work."""

import ctypes
import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import cache
from itertools import islice
from threading import Lock, Semaphore, Thread
from time import sleep
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

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


TURN_SECONDS = 0.25  # that a computation waits for a core, and then goes on: long ones keep nobody waiting

Chunk = tuple[slice, Any]


def cores() -> int:
    """Return the number of cores that this process may use; macOS and Windows have no sched_getaffinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_behind(parent: int | None, niceness: int, exit_code: int) -> None:
    """Lower the priority of this process by `niceness`; end it by `exit_code` once `parent` is not its parent."""

    def end_with_parent() -> None:
        while os.getppid() == parent:
            sleep(0.5)
        os._exit(exit_code)

    if hasattr(os, "nice"):
        os.nice(niceness)
    if parent is not None:
        Thread(target=end_with_parent, daemon=True).start()


_spare_cores = Semaphore(cores() - 1)
_turns = Semaphore(cores())


@contextmanager
def take_turn() -> Iterator[None]:
    """Compute while no more threads than cores do, or after a wait of TURN_SECONDS.

    More threads would only take Python's lock from each other: on two cores, eight threads answer 40 % fewer queries
    by EPRF than two. Passes a checkpoint after waiting.
    """
    has_turn = _turns.acquire(timeout=TURN_SECONDS)
    try:
        checkpoint()
        yield
    finally:
        if has_turn:
            _turns.release()


def keep_to_one_core() -> None:
    """Let `for_each` start no helpers in this process, because sibling processes use the other cores."""
    while _spare_cores.acquire(blocking=False):
        pass


def release_memory() -> None:
    """Return memory that is not used any more to the system, which the C library else keeps for later."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None  # glibc only
    if trim is not None:
        trim(0)


def for_each(chunks: Iterator[Chunk], work: Callable[[slice, Any], None], threads: int) -> None:
    """Call `work` for each chunk on several threads, with a checkpoint before each; exceptions propagate.

    Concurrent callers share the cores: besides its own thread, each uses only idle ones. The result of a chunk does
    not depend on its thread. BLAS runs on one thread meanwhile: threads that multiply alone also share the work
    before and after the product.

    Parameters
    ----------
    chunks : iterator of (slice, vectors)
        Chunks, taken one at a time.
    work : callable
        Called as work(slice, vectors).
    threads : int
        Maximum number of threads.
    """
    next_chunk = Lock()

    def work_through() -> None:
        while True:
            checkpoint()
            with next_chunk:
                chunk = next(chunks, None)
            if chunk is None:
                return
            work(*chunk)

    with OneBlasThread():
        helpers = 0
        while helpers < threads - 1 and _spare_cores.acquire(blocking=False):
            helpers += 1
        try:
            _run_with_helpers(work_through, helpers)
        finally:
            if helpers:
                _spare_cores.release(helpers)


def _run_with_helpers(work: Callable[[], None], helpers: int) -> None:
    """Run `work` in this thread and in `helpers` others."""
    if helpers == 0:
        work()
        return
    with ThreadPoolExecutor(helpers) as executor:
        futures = [executor.submit(copy_context().run, work) for _ in range(helpers)]
        work()
        for future in futures:
            future.result()


@cache
def _libraries() -> ThreadpoolController:
    """Return the BLAS libraries with a process-wide number of threads: OpenBLAS as bundled with numpy."""
    return ThreadpoolController().select(threading_layer="pthreads")


def _release_control() -> None:
    """Let any thread change the limit: threadpoolctl 3.8 and later obey only the thread that first set it."""
    for library in _libraries().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


class OneBlasThread:
    """Limit BLAS to one thread while at least one thread is inside.

    For many small products, after each of which the other BLAS threads keep a core busy waiting. The setting is
    process-wide, so its users are counted: if each saved and restored it alone, it could stay at one.
    """

    _lock = Lock()
    _users = 0
    _limit: Any = None

    def __enter__(self) -> None:
        with OneBlasThread._lock:
            OneBlasThread._users += 1
            if OneBlasThread._users == 1:
                OneBlasThread._limit = _libraries().limit(limits=1, user_api="blas")
                _release_control()

    def __exit__(self, *_: object) -> None:
        with OneBlasThread._lock:
            OneBlasThread._users -= 1
            if OneBlasThread._users == 0:
                OneBlasThread._limit.restore_original_limits()
                _release_control()
