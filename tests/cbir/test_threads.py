import numpy as np
import pytest
from threadpoolctl import threadpool_info

from cbir.threads import OneBlasThread, cores, for_each


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


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


def test_blas_has_one_thread_inside_and_the_old_number_after():
    before = blas_threads()
    with OneBlasThread(), OneBlasThread():
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_there_is_at_least_one_core():
    assert cores() >= 1
