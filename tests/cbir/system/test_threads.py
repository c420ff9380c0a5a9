import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from threading import Lock, Semaphore, get_ident
from time import sleep

import cv2
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cbir.errors import QueryCancelled
from cbir.store import Collection
from cbir.system import threads
from cbir.system.threads import OneBlasThread, cores, for_each, keep_to_one_core, take_turn, time_limit


def blas_threads() -> set[int]:
    """Of numpy's OpenBLAS."""
    return {pool["num_threads"] for pool in threadpool_info() if pool.get("threading_layer") == "pthreads"}


@pytest.fixture
def several_blas_threads():
    """Three threads before, as on a machine with as many cores: tests begin with one."""
    with threadpool_limits(3, "blas"):
        assert blas_threads() == {3}
        yield


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_each_chunk_is_done_once(threads, count):
    done = np.zeros(count, int)

    def work(where: slice, add: int) -> None:
        done[where] += add

    for_each(((slice(i, i + 1), i + 1) for i in range(count)), work, threads)
    assert done.tolist() == [i + 1 for i in range(count)]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_thread_reaches_the_caller(threads):
    def work(where: slice, vectors: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        for_each(iter([(slice(0, 1), None)] * 4), work, threads)


def _threads_used(after: bool) -> int:
    if after:
        keep_to_one_core()
    used = set()

    def work(where: slice, vectors: object) -> None:
        used.add(get_ident())
        sleep(0.02)

    for_each(iter([(slice(0, 1), None)] * 8), work, 2)
    return len(used)


@pytest.mark.slow
def test_a_process_can_keep_to_one_core():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        assert process.submit(_threads_used, False).result() == min(2, cores())
        assert process.submit(_threads_used, True).result() == 1


@pytest.mark.usefixtures("several_blas_threads")
def test_blas_has_one_thread_inside_and_the_old_number_after():
    with OneBlasThread(), OneBlasThread():
        assert blas_threads() == {1}
    assert blas_threads() == {3}


@pytest.mark.usefixtures("several_blas_threads")
def test_any_thread_may_be_the_first_in_and_the_last_out():
    with OneBlasThread():
        pass
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first, second = OneBlasThread(), OneBlasThread()
        one.submit(first.__enter__).result()
        assert blas_threads() == {1}
        other.submit(second.__enter__).result()
        one.submit(first.__exit__).result()
        assert blas_threads() == {1}
        other.submit(second.__exit__).result()
        assert blas_threads() == {3}


def test_there_is_at_least_one_core():
    assert cores() >= 1


@pytest.mark.parametrize("count", [3, None])
def test_cores_without_sched_getaffinity(count, monkeypatch):
    """macOS and Windows lack os.sched_getaffinity."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert cores() == (count or 1)


@pytest.mark.slow
def test_index_without_sched_getaffinity(tmp_path):
    source, folder = tmp_path / "images", tmp_path / "collection"
    source.mkdir()
    for seed in range(3):
        pixels = np.random.default_rng(seed).integers(0, 256, (40, 40), np.uint8)
        cv2.imwrite(str(source / f"{seed}.png"), pixels)
    script = (
        "import os, sys; del os.sched_getaffinity; from cbir.api.main import main; "
        f"sys.argv = ['cbir', 'index', {str(source)!r}, '--profile', 'tamura', '--collection', "
        f"{str(folder)!r}]; "
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with Collection(folder) as collection:
        assert len(collection) == 3


class TestTurns:
    def test_no_more_threads_than_cores_compute(self, monkeypatch):
        monkeypatch.setattr(threads, "_turns", Semaphore(2))
        monkeypatch.setattr(threads, "TURN_SECONDS", 60)
        busy, most, lock = 0, 0, Lock()

        def compute(_: int) -> None:
            nonlocal busy, most
            with take_turn():
                with lock:
                    busy += 1
                    most = max(most, busy)
                sleep(0.01)
                with lock:
                    busy -= 1

        with ThreadPoolExecutor(6) as executor:
            list(executor.map(compute, range(12)))
        assert most == 2

    def test_long_computations_keep_nobody_waiting(self, monkeypatch):
        turns = Semaphore(0)
        monkeypatch.setattr(threads, "_turns", turns)
        monkeypatch.setattr(threads, "TURN_SECONDS", 0.01)
        for _ in range(2):
            with take_turn():
                pass
        assert not turns.acquire(blocking=False)  # what was not taken is not given back

    def test_turns_are_given_back_after_an_error(self, monkeypatch):
        turns = Semaphore(1)
        monkeypatch.setattr(threads, "_turns", turns)
        with pytest.raises(ZeroDivisionError), take_turn():
            raise ZeroDivisionError
        assert turns.acquire(blocking=False)

    def test_a_cancelled_computation_does_not_begin(self, monkeypatch):
        turns = Semaphore(1)
        monkeypatch.setattr(threads, "_turns", turns)
        with pytest.raises(QueryCancelled), time_limit(0), take_turn():
            raise AssertionError("it computes")
        assert turns.acquire(blocking=False)
