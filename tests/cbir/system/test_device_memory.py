"""Work in pieces: every row once, in order, and smaller pieces where the memory of a device is full."""

from threading import Event, Thread

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cbir.errors import InvalidInput
from cbir.system.device_failure import full_precision, in_pieces, is_out_of_device_memory, rows_within
from tests.cbir.system.device_errors import ERRORS


@given(count=st.integers(0, 300), size=st.integers(1, 400), room=st.integers(1, 400))
def test_every_row_once_and_in_order(count, size, room):
    tried = []

    def work(rows):
        tried.append(rows.stop - rows.start)
        if tried[-1] > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return list(range(rows.start, rows.stop))

    assert [row for piece in in_pieces(work, count, size) for row in piece] == list(range(count))
    assert len([length for length in tried if length > room]) <= 9  # halved for good, not for each piece


def test_a_row_that_does_not_fit_is_an_error():
    def full(rows):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        list(in_pieces(full, 8, 4))


@pytest.mark.parametrize("name", ERRORS)
def test_other_failures_are_no_matter_of_size(name):
    sizes = []

    def work(rows):
        sizes.append(rows.stop - rows.start)
        raise ERRORS[name]()

    with pytest.raises(type(ERRORS[name]())):
        list(in_pieces(work, 8, 8))
    assert sizes == ([8, 4, 2, 1] if name in ("memory", "faiss") else [8])
    assert is_out_of_device_memory(ERRORS[name]()) == (name in ("memory", "faiss"))


def test_rows_within_a_limit():
    assert rows_within(1000, 100) == 10
    assert rows_within(10, 100) == 1
    assert rows_within(10, 0) == 10


def test_full_precision_is_for_its_block_alone():
    parts = (torch.backends.cudnn.conv, torch.backends.cudnn.rnn, torch.backends.cuda.matmul)
    before = [part.fp32_precision for part in parts]
    with full_precision():
        assert [part.fp32_precision for part in parts] == ["ieee"] * 3
    with pytest.raises(InvalidInput), full_precision():
        raise InvalidInput
    assert [part.fp32_precision for part in parts] == before
    assert isinstance(torch.backends.cudnn.allow_tf32, bool)  # the older question is still answered


def test_full_precision_holds_until_the_last_thread_is_done():
    part, leave = torch.backends.cudnn.conv, Event()
    before, entered = part.fp32_precision, Event()

    def first():
        with full_precision():
            entered.set()
            leave.wait(60)

    thread = Thread(target=first)
    thread.start()
    assert entered.wait(60)
    with full_precision():
        leave.set()
        thread.join()
        assert part.fp32_precision == "ieee"
    assert part.fp32_precision == before
