"""Parallel work on the chunks of a gallery, with one BLAS thread per worker."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from threading import Lock, Semaphore, Thread
from time import sleep
from typing import Any

from threadpoolctl import ThreadpoolController

from cbir.system.cancellation import checkpoint

TURN_SECONDS = 0.25  # that a computation waits for a core, and then goes on: long ones keep nobody waiting

Chunk = tuple[slice, Any]


def cores() -> int:
    """Return the number of cores that this process may use; macOS and Windows have no sched_getaffinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_behind(parent: int, niceness: int, exit_code: int) -> None:
    """Lower the priority of this process by `niceness`; end it by `exit_code` once its parent, if not 0, is gone."""

    def end_with_parent() -> None:
        while os.getppid() == parent:
            sleep(0.5)
        os._exit(exit_code)

    if hasattr(os, "nice"):
        os.nice(niceness)
    if parent:
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
