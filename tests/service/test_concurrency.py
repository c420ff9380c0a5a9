"""Requests wait their turn in order, and are refused where they would wait too long."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cbir import settings
from service.app import create_app
from service.collections.app_state import EXTENSION
from service.http.concurrency import ConcurrencyLimit
from service.http.problems import TooManyRequests
from tests.service.conftest import problem


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("service.http.concurrency.time", clock)
    return clock


def occupy(limit: ConcurrencyLimit, seconds: float, clock: Clock, times: int = 60) -> None:
    """Let requests pass, of which one ends whenever so many seconds have gone by."""
    for _ in range(times):
        with limit.admit(), limit.slot():
            clock.now += seconds
        clock.now += 1000  # an idle service says nothing about waits


@contextmanager
def at_work(limit: ConcurrencyLimit, requests: int) -> Iterator[None]:
    """Have some requests in their slots, or waiting for one."""
    end, before = threading.Event(), limit.waiting + limit.working

    def work() -> None:
        with limit.admit(), limit.slot():
            end.wait(10)

    threads = [threading.Thread(target=work) for _ in range(requests)]
    for number, thread in enumerate(threads):
        thread.start()
        while limit.waiting + limit.working <= before + number:
            time.sleep(0.001)
    time.sleep(0.02)
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()


def test_requests_have_their_turn_in_order() -> None:
    limit, order, first = ConcurrencyLimit(threads=1, queue=100), [], threading.Event()

    def work(number: int) -> None:
        with limit.admit(), limit.slot():
            order.append(number)
            if number == 0:
                first.wait(10)

    with ThreadPoolExecutor(30) as executor:
        for number in range(30):
            executor.submit(work, number)
            while limit.waiting + limit.working < number + 1:
                time.sleep(0.001)
        time.sleep(0.05)
        assert (limit.working, limit.waiting) == (1, 29)
        first.set()
    assert order == list(range(30))
    assert (limit.working, limit.waiting) == (0, 0)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_as_many_work_as_there_are_threads(threads: int) -> None:
    limit, most, lock = ConcurrencyLimit(threads, queue=100), [0], threading.Lock()

    def work(_: int) -> None:
        with limit.admit(), limit.slot():
            with lock:
                most.append(limit.working)
            time.sleep(0.002)

    with ThreadPoolExecutor(20) as executor:
        list(executor.map(work, range(60)))
    assert max(most) == threads
    assert (limit.working, limit.waiting) == (0, 0)


def test_slot_is_free_after_an_error() -> None:
    limit = ConcurrencyLimit(threads=1, queue=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), limit.admit(), limit.slot():
            raise ZeroDivisionError
    assert (limit.working, limit.waiting) == (0, 0)


def test_long_waits_are_refused(clock: Clock) -> None:
    limit = ConcurrencyLimit(threads=4, queue=1000, queue_seconds=1.05)
    occupy(limit, 0.1, clock)
    with at_work(limit, 4 + 9 + 1):
        with pytest.raises(TooManyRequests, match=r"wait about 1\.1 seconds") as refused, limit.admit():
            pass
        assert refused.value.retry_after == 2
    with limit.admit():
        pass


def test_requests_side_by_side_count_once(clock: Clock) -> None:
    """Two requests of 2 seconds each end at the same time: one second for each."""
    limit = ConcurrencyLimit(threads=2, queue=1000, queue_seconds=2.5)
    for _ in range(60):
        with limit.admit(), limit.slot(), limit.admit(), limit.slot():
            clock.now += 2
    with at_work(limit, 4), pytest.raises(TooManyRequests, match=r"about 2\.8"), limit.admit():
        pass


def test_requests_that_wait_for_something_else_delay_nobody(clock: Clock) -> None:
    """For a decoder, for instance, or for their body."""
    limit = ConcurrencyLimit(threads=1, queue=1000, queue_seconds=1)
    occupy(limit, 10, clock)
    with ExitStack() as admitted:
        for _ in range(20):
            admitted.enter_context(limit.admit())
        with limit.admit(), limit.slot():
            assert limit.waiting == 20


def test_one_caller_cannot_have_all_requests() -> None:
    callers = ["many"]
    limit = ConcurrencyLimit(threads=2, queue=6, caller=lambda: callers[0])
    with ExitStack() as admitted:
        for _ in range(6):
            admitted.enter_context(limit.admit())
        with pytest.raises(TooManyRequests, match="limit of 6 requests"), limit.admit():
            pass
        callers[0] = "other"
        with limit.admit(), limit.slot():
            assert limit.working == 1


def test_long_waits_of_one_caller_are_not_those_of_another(clock: Clock) -> None:
    callers = ["many"]
    limit = ConcurrencyLimit(threads=2, queue=1000, queue_seconds=1, caller=lambda: callers[0])
    occupy(limit, 0.5, clock)
    with at_work(limit, 4):
        with pytest.raises(TooManyRequests), limit.admit():
            pass
        callers[0] = "other"
        with limit.admit():
            pass


def test_free_threads_are_used_however_slow_requests_are(clock: Clock) -> None:
    limit = ConcurrencyLimit(threads=2, queue=1000, queue_seconds=1)
    occupy(limit, 1000, clock)
    with (
        limit.admit(),
        limit.slot(),
        limit.admit(),
        limit.slot(),
        pytest.raises(TooManyRequests),
        limit.admit(),
    ):
        pass


def test_mean_follows_the_requests(clock: Clock) -> None:
    limit = ConcurrencyLimit(threads=1, queue=10, queue_seconds=0.01)
    occupy(limit, 1000, clock)
    occupy(limit, 0, clock, times=200)
    with limit.admit(), limit.slot(), limit.admit():
        pass


def test_refusal_says_when_to_come_back(indexed: Path, ids: list[str], clock: Clock) -> None:
    app = create_app(indexed, settings.load(threads=1, queue=10))
    limit = app.extensions[EXTENSION].concurrency
    occupy(limit, 3.2, clock)
    with limit.admit(), limit.slot():
        refused = app.test_client().post("/v1/search", json={"image_id": ids[0]})
    assert "wait about 3.2 seconds" in problem(refused, 429)
    assert refused.headers["Retry-After"] == "4"
