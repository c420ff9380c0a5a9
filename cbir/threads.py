"""Work on the chunks of a gallery with every core, one chunk a thread at a time."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock, Semaphore
from typing import Any

from threadpoolctl import ThreadpoolController

Chunk = tuple[slice, Any]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_spare_cores = Semaphore(cores() - 1)


def keep_to_one_core() -> None:
    """From now on `for_each` starts no helpers in this process: its siblings have the other cores."""
    while _spare_cores.acquire(blocking=False):
        pass


def for_each(chunks: Iterator[Chunk], work: Callable[[slice, Any], None], threads: int) -> None:
    """Call `work(where, vectors)` for each chunk on up to `threads` threads; what it raises, this raises.

    Callers at the same time share the cores: beyond its own thread each takes only those that are spare.
    Threads take turns, so a chunk's result does not depend on which of them does it. BLAS runs on one thread
    meanwhile: two threads that each multiply alone also share what comes before and after the product.
    """
    turn = Lock()

    def take() -> None:
        while True:
            with turn:
                chunk = next(chunks, None)
            if chunk is None:
                return
            work(*chunk)

    with OneBlasThread():
        helpers = 0
        while helpers < threads - 1 and _spare_cores.acquire(blocking=False):
            helpers += 1
        try:
            _together(take, helpers)
        finally:
            if helpers:
                _spare_cores.release(helpers)


def _together(work: Callable[[], None], helpers: int) -> None:
    """`work` in this thread and in so many others."""
    if helpers == 0:
        work()
        return
    with ThreadPoolExecutor(helpers) as executor:
        started = [executor.submit(work) for _ in range(helpers)]
        work()
        for helper in started:
            helper.result()


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries whose number of threads belongs to the process: OpenBLAS as numpy brings it."""
    return ThreadpoolController().select(threading_layer="pthreads")


def _give_up_control() -> None:
    """From 3.8 on, threadpoolctl obeys only the thread that first set a limit; here any may be the last one."""
    for library in _libraries().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


class OneBlasThread:
    """Holds BLAS to one thread while anybody is inside; the last one out restores the setting.

    For what is many small products: after each one the other threads of BLAS keep a core busy with waiting.
    The setting belongs to the process, so its users are counted: each saving and restoring it alone could
    leave it at one for good.
    """

    _lock = Lock()
    _inside = 0
    _limit: Any = None

    def __enter__(self) -> None:
        with OneBlasThread._lock:
            OneBlasThread._inside += 1
            if OneBlasThread._inside == 1:
                OneBlasThread._limit = _libraries().limit(limits=1, user_api="blas")
                _give_up_control()

    def __exit__(self, *_: object) -> None:
        with OneBlasThread._lock:
            OneBlasThread._inside -= 1
            if OneBlasThread._inside == 0:
                OneBlasThread._limit.restore_original_limits()
                _give_up_control()
