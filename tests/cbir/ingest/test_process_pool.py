"""Worker processes: results, exceptions, and tasks that kill their process."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from cbir.errors import InvalidInput
from cbir.ingest.process_pool import ProcessPool, WorkerDied

pytestmark = pytest.mark.usefixtures("spawned_workers")

_offset = 0


def set_offset(offset: int) -> None:
    """Initialise a process."""
    global _offset
    _offset = offset


def compute(task: int) -> int:
    """Add the offset; raise for a negative number, die for 13."""
    if task < 0:
        raise InvalidInput(f"{task} is negative")
    if task == 13:
        os._exit(1)
    return task + _offset


@pytest.fixture
def pool() -> Iterator[ProcessPool[int, int]]:
    with ProcessPool(compute, 2, partial(set_offset, 100)) as pool:
        yield pool


def test_results_and_exceptions_come_back(pool: ProcessPool[int, int]) -> None:
    assert pool.run(1) == 101
    assert [future.result() for future in [pool.submit(task) for task in range(10)]] == [*range(100, 110)]
    with pytest.raises(InvalidInput, match="-1 is negative"):
        pool.run(-1)
    assert pool.run(2) == 102


def test_only_the_task_that_kills_its_process_fails(pool: ProcessPool[int, int]) -> None:
    futures = [pool.submit(task) for task in range(10, 16)]
    with pytest.raises(WorkerDied):
        futures.pop(3).result()
    assert [future.result() for future in futures] == [110, 111, 112, 114, 115]


def process_of(_task: int) -> int:
    return os.getpid()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_process_that_starts_outlives_what_stops_all_of_a_group() -> None:
    others = multiprocessing.active_children()
    with ProcessPool(process_of, 1) as pool:
        pool.start()
        (child,) = (each for each in multiprocessing.active_children() if each not in others)
        assert child.pid
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(child.pid, number)
        assert pool.run(0) == child.pid
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM}


def test_closing_drops_tasks_that_have_not_begun() -> None:
    pool = ProcessPool(compute, 1)
    futures = [pool.submit(task) for task in range(200)]
    assert futures[0].result() == 0
    pool.close()
    assert all(future.done() for future in futures)
    assert futures[-1].cancelled()
