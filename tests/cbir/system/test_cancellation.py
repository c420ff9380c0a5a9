"""Searches end soon after their time limit, whatever they are doing, and disturb no other."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from cbir import rerank
from cbir.errors import QueryCancelled
from cbir.gallery.gallery import Gallery, rank
from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.knn_graph import Neighbourhood
from cbir.rerank.diffusion import RelevanceFeedback
from cbir.rerank.feedback import Feedback
from cbir.system.threads import checkpoint, for_each, locked, run_to_end, time_limit, with_checkpoints

METHODS = (*rerank.names(), Feedback.name)


def gallery_of(count: int, dimensions: int = 24) -> Gallery:
    """A gallery with a graph of random neighbours, which takes long to spread over."""
    random = np.random.default_rng(0)
    plain = Gallery((random.standard_normal((count, dimensions), dtype=np.float32),), np.arange(count))
    rows = random.integers(0, count, (count, NEAREST), dtype=np.int32)
    squared = np.sort(random.uniform(0.5, 2.0, rows.shape).astype(np.float32), axis=1)
    lengths = np.ones(count, np.float32)
    return replace(plain, neighbourhood=Neighbourhood(NearestNeighbours(plain.space, rows, squared, lengths)))


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    return gallery_of(120_000)


def search(gallery: Gallery, method: str, row: int = 5) -> np.ndarray:
    """Search with one row: the scores of all."""
    query = gallery.vectors(np.array([row]))[0]
    ranking = rank(query, gallery)
    if method == Feedback.name:
        judged = RelevanceFeedback(np.array([1, 2, 3]), np.array([1.0, 0.5, -1.0]))
        return Feedback()(query[None], judged, ranking, gallery).scores
    return rerank.get(method)(query, ranking, gallery).scores


def search_repeatedly(gallery: Gallery, method: str) -> None:
    for row in itertools.count():
        search(gallery, method, row)


class Watched:
    """Limit that counts checkpoints and ends the computation at one of them."""

    def __init__(self, end_at: float = np.inf) -> None:
        self.end_at, self.passed = end_at, 0

    def apply(self) -> None:
        self.passed += 1
        if self.passed >= self.end_at:
            raise QueryCancelled("here")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_cancelled_at_any_checkpoint(method, gallery, monkeypatch):
    expected = search(gallery, method)

    def watched(limit: Watched) -> np.ndarray:
        monkeypatch.setattr("cbir.system.threads._Limit", lambda *_: limit)
        with time_limit(1):
            return search(gallery, method)

    whole = Watched()
    assert np.array_equal(watched(whole), expected)
    assert whole.passed > 50
    for end_at in {1, 2, whole.passed // 2, whole.passed - 1, whole.passed - 5}:
        with pytest.raises(QueryCancelled, match="here"):
            watched(Watched(end_at))
    assert np.array_equal(search(gallery, method), expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_ends_soon_after_the_limit(method, gallery):
    started = time.perf_counter()
    search(gallery, method)
    whole = time.perf_counter() - started
    for seconds in (0.001, 0.3 * whole, 0.6 * whole):
        started = time.perf_counter()
        with pytest.raises(QueryCancelled, match="query_seconds"), time_limit(seconds):
            search_repeatedly(gallery, method)
        assert time.perf_counter() - started < seconds + 1


@pytest.mark.slow
def test_other_searches_are_not_disturbed(gallery):
    methods = ("none", "eprf", "diffusion", "k-reciprocal")
    alone = {method: search(gallery, method) for method in methods}
    stop = threading.Event()

    def cancelled() -> int:
        times = 0
        while not stop.is_set():
            with pytest.raises(QueryCancelled), time_limit(0.003):
                search_repeatedly(gallery, "eprf")
            times += 1
        return times

    with ThreadPoolExecutor(2) as executor:
        counts = [executor.submit(cancelled) for _ in range(2)]
        try:
            for method in methods * 2:
                assert np.array_equal(search(gallery, method), alone[method])
        finally:
            stop.set()
        assert all(count.result() for count in counts)


def test_graph_is_built_although_the_first_query_is_cancelled(monkeypatch):
    """Otherwise a limit that is shorter than building it would cancel every query."""
    gallery, building = gallery_of(2000), threading.Event()
    neighbourhood = gallery.neighbourhood
    follow = neighbourhood._follow

    def slow(vectors: Gallery) -> object:
        building.wait(5)
        return follow(vectors)

    monkeypatch.setattr(neighbourhood, "_follow", slow)
    with pytest.raises(QueryCancelled), time_limit(0.05):
        neighbourhood.covering(gallery)
    building.set()
    with time_limit(5):
        graph, _ = neighbourhood.covering(gallery)
    assert len(graph) == 2000


def test_nothing_is_cancelled_without_a_limit():
    checkpoint()
    assert list(with_checkpoints(range(10_000))) == list(range(10_000))
    assert run_to_end(threading.get_ident, threading.Lock()) == threading.get_ident()


def test_limit_ends_with_its_block():
    with time_limit(1e-9):
        with pytest.raises(QueryCancelled, match="1e-09 seconds"):
            checkpoint()
        with pytest.raises(QueryCancelled):
            next(with_checkpoints([1]))
    checkpoint()


def test_check_is_called_now_and_then_and_ends_the_computation():
    calls = []

    def leave() -> None:
        calls.append(time.monotonic())
        if len(calls) == 3:
            raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError), time_limit(10, leave):
        list(with_checkpoints(itertools.count()))
    assert np.diff(calls).min() >= 0.05


@pytest.mark.parametrize("threads", [1, 4])
def test_helper_threads_have_the_limit_of_their_caller(threads):
    chunks = ((slice(number, number + 1), None) for number in range(10_000))
    started = time.monotonic()
    with pytest.raises(QueryCancelled), time_limit(0.05):
        for_each(chunks, lambda *_: time.sleep(0.002), threads)
    assert time.monotonic() - started < 4  # all chunks take 5 seconds on four threads


def test_limit_of_one_thread_does_not_reach_another():
    with ThreadPoolExecutor(1) as executor, time_limit(1e-9):
        executor.submit(checkpoint).result()


def test_waiting_for_a_lock_is_cancelled():
    lock = threading.Lock()
    with lock:
        started = time.monotonic()
        with pytest.raises(QueryCancelled), time_limit(0.1), locked(lock):
            raise AssertionError("another thread holds the lock")
        assert time.monotonic() - started < 5
    with time_limit(1), locked(lock):
        assert lock.locked()
    assert not lock.locked()


def test_shared_work_is_done_although_its_caller_is_cancelled():
    done, proceed = threading.Event(), threading.Event()

    def work() -> None:
        proceed.wait(5)
        checkpoint()
        done.set()

    with pytest.raises(QueryCancelled), time_limit(0.05):
        run_to_end(work, threading.Lock())
    proceed.set()
    assert done.wait(5)


def test_errors_of_shared_work_reach_the_caller():
    def fail() -> None:
        raise TimeoutError("of the work itself")

    lock = threading.Lock()
    with pytest.raises(TimeoutError, match="itself"), time_limit(5):
        run_to_end(fail, lock)
    assert not lock.locked()


def test_cancelled_callers_leave_one_thread():
    lock, proceed, threads = threading.Lock(), threading.Event(), threading.active_count()

    def leave() -> None:
        raise ConnectionAbortedError

    for _ in range(10):
        with pytest.raises(ConnectionAbortedError), time_limit(5, leave):
            run_to_end(proceed.wait, lock)
    assert threading.active_count() <= threads + 1
    proceed.set()
    with time_limit(5):
        assert run_to_end(lambda: "next", lock) == "next"


def test_the_lock_is_free_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    lock = threading.Lock()
    monkeypatch.setattr(threading.Thread, "start", start)
    with time_limit(10), pytest.raises(RuntimeError, match="new thread"):
        run_to_end(lambda: 1, lock)
    assert not lock.locked()
