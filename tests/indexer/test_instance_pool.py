"""Processes that describe instances, and what happens when one dies."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from cbir.images import Limits
from cbir.ingest.description import DescribeTask
from cbir.ingest.process_memory import SharedBytes, share_bytes
from cbir.ingest.process_pool import ProcessPool, WorkerDied, use_one_thread
from cbir.store.base import profile as profiles
from indexer.describe_instance import (
    Fate,
    InstanceOutcome,
    InstanceTask,
    describe_instance,
    describe_shared_instance,
)
from tests.indexer.receiving import file_of, phantom

TASK = InstanceTask(DescribeTask(profiles.get("huang2012"), b"secret", Limits()))


pytestmark = pytest.mark.usefixtures("spawned_workers")
InstancePool = ProcessPool[SharedBytes, InstanceOutcome]


@pytest.fixture(scope="module")
def pool() -> Iterator[InstancePool]:
    with InstancePool(partial(describe_shared_instance, task=TASK), 2, use_one_thread) as pool:
        pool.start()
        yield pool


def describe(pool: InstancePool, data: bytes) -> InstanceOutcome:
    """Describe in a process of the pool."""
    with share_bytes(data) as shared:
        return pool.run(shared)


@pytest.mark.slow
def test_processes_describe_as_this_one_does(pool: InstancePool) -> None:
    files = [file_of(phantom(number)) for number in range(6)]
    with ThreadPoolExecutor(4) as threads:  # more than there are processes
        results = threads.map(partial(describe, pool), files)
        for data, described in zip(files, results, strict=True):
            expected = describe_instance(data, TASK)
            assert described.fate is Fate.stored
            assert described.file.records == expected.file.records
            assert described.file.thumbnails == expected.file.thumbnails
            assert (described.file.vectors[0] == expected.file.vectors[0]).all()


@pytest.mark.slow
def test_only_the_instance_that_kills_its_process_fails(pool: InstancePool) -> None:
    small = file_of(phantom(1))
    before = _idle_processes(pool)
    for number in before:  # so that the process to kill is still busy
        os.kill(number, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(describe, pool, small)
        while len(_idle_processes(pool)) > 1:
            time.sleep(0.001)
        (busy,) = before - _idle_processes(pool)
        os.kill(busy, signal.SIGKILL)
        (other,) = before - {busy}
        os.kill(other, signal.SIGCONT)
        with pytest.raises(WorkerDied):
            waiting.result(60)
    assert [describe(pool, small).fate for _ in range(4)] == [Fate.stored] * 4
    assert busy not in _idle_processes(pool)


def _idle_processes(pool: InstancePool) -> set[int]:
    return {worker.process.pid or 0 for worker in list(pool._idle.queue)}
