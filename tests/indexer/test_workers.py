"""Processes that describe instances, and what happens when one dies."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cbir.images import Limits
from indexer.dicom.instance import Fate, Task, describe
from indexer.dicom.options import Choice
from indexer.dicom.workers import Workers
from tests.indexer.receiving import file_of, phantom

TASK = Task("huang2012", b"secret", Limits(), Choice())


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers(TASK, 2)
    yield made
    made.close()


def test_what_a_process_says_is_what_is_so(workers: Workers) -> None:
    files = [file_of(phantom(number)) for number in range(6)]
    with ThreadPoolExecutor(4) as threads:  # more than there are processes
        for file, found in zip(files, threads.map(workers.describe, files), strict=True):
            expected = describe(file, TASK)
            assert (found.fate, found.records, found.pictures) == (
                Fate.stored,
                expected.records,
                expected.pictures,
            )
            assert (found.vectors[0] == expected.vectors[0]).all()


def test_an_instance_that_kills_its_process_is_refused_and_no_other(workers: Workers) -> None:
    small = file_of(phantom(1))
    before = _idle(workers)
    for number in before:  # so that the one that is killed is still at it
        os.kill(number, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(workers.describe, small)
        while len(_idle(workers)) > 1:
            time.sleep(0.001)
        (busy,) = before - _idle(workers)
        os.kill(busy, signal.SIGKILL)
        (other,) = before - {busy}
        os.kill(other, signal.SIGCONT)
        assert waiting.result(60).fate is Fate.unreadable
    assert [workers.describe(small).fate for _ in range(4)] == [Fate.stored] * 4
    assert busy not in _idle(workers)


def _idle(workers: Workers) -> set[int]:
    return {one.process.pid or 0 for one in list(workers._idle.queue)}
