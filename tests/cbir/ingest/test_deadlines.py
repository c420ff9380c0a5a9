"""Tasks that take too long, too much memory, or that nobody waits for any more."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cbir.ingest.process_memory import memory_limit
from cbir.ingest.process_pool import (
    ProcessPool,
    WorkerDied,
    WorkerTimedOut,
    extend_deadline,
)

MEBIBYTE = 2**20


def work(task: tuple[str, float]) -> int:
    """Sleep, alone or with signs of life, or allocate some MiB; return the number of the process."""
    kind, amount = task
    if kind == "sleep":
        time.sleep(amount)
    elif kind == "extend":
        for _ in range(int(amount)):
            time.sleep(0.2)
            extend_deadline(1.0)
    elif kind == "allocate":
        with memory_limit(64 * MEBIBYTE):
            np.ones(int(amount) * MEBIBYTE, np.uint8)
    return os.getpid()


pytestmark = pytest.mark.usefixtures("spawned_workers")
Pool = ProcessPool[tuple[str, float], int]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(work, 2, seconds=1.0) as pool:
        pool.start()
        first = [pool.submit(("sleep", 0.5)) for _ in range(2)]
        assert len({future.result() for future in first}) == 2
        yield pool


@pytest.mark.slow
def test_a_task_is_killed_at_its_deadline_and_disturbs_no_other(pool: Pool) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        endless = threads.submit(pool.run, ("sleep", 60))
        others = [pool.run(("sleep", 0.01)) for _ in range(20)]
        with pytest.raises(WorkerTimedOut):
            endless.result(30)
    assert time.monotonic() - started < 30
    assert len(set(others)) == 1
    assert pool.run(("sleep", 0)) > 0


@pytest.mark.slow
def test_a_task_extends_its_deadline(pool: Pool) -> None:
    assert pool.run(("extend", 10)) > 0  # two seconds, where one is allowed


@pytest.mark.slow
def test_a_task_that_is_not_wanted_any_more_is_killed(pool: Pool) -> None:
    until = time.monotonic() + 0.6

    def check() -> None:
        if time.monotonic() > until:
            raise ConnectionAbortedError

    with pytest.raises((ConnectionAbortedError, WorkerDied)):
        pool.run(("sleep", 60), check)
    assert time.monotonic() - until < 30  # for the start of a new process


@pytest.mark.slow
def test_no_other_task_waits_for_the_start_of_a_replacement(pool: Pool) -> None:
    """Its imports are at the expense of the task that was killed."""
    with pytest.raises(WorkerTimedOut):
        pool.run(("sleep", 60))
    started = time.monotonic()
    running = [pool.submit(("sleep", 0.01)) for _ in range(2)]
    assert all(future.result() for future in running)
    assert time.monotonic() - started < 0.5


@pytest.mark.slow
def test_a_process_that_was_killed_while_idle_is_replaced(pool: Pool) -> None:
    for number in {pool.run(("sleep", 0)) for _ in range(4)}:
        os.kill(number, signal.SIGKILL)
    time.sleep(0.2)
    assert [pool.run(("sleep", 0)) > 0 for _ in range(4)] == [True] * 4


@pytest.mark.slow
def test_memory_of_a_task_is_limited(pool: Pool) -> None:
    assert pool.run(("allocate", 48)) > 0
    with pytest.raises(MemoryError):
        pool.run(("allocate", 80))
    with memory_limit(64 * MEBIBYTE):
        np.ones(32 * MEBIBYTE, np.uint8)
    np.ones(80 * MEBIBYTE, np.uint8)
