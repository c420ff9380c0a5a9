"""Work in pieces that fit into the memory of a device: limits are bytes, and a piece that does not fit is halved."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")

SPREAD = 16  # bytes of activations for each byte of a network's input, with which the first batch is planned
SHARE = 4  # the first batch is planned for this part of the memory that is free
# What torch, cuBLAS, cuDNN and FAISS say when memory is full, or a tensor has too many values for any kernel
TOO_LARGE = ("out of memory", "ALLOC_FAILED", "unable to find an engine", "CUDNN_STATUS_NOT_SUPPORTED")
IMAGES_TOGETHER = 256  # that an encoder describes on a GPU at first
MOST_BYTES = 64 << 20  # of a network's input in a batch; larger ones are no faster


def in_pieces(work: Callable[[slice], T], count: int, size: int) -> Iterator[T]:
    """Yield work(rows) for consecutive slices of `count` rows.

    Parameters
    ----------
    work : callable
        Computes a slice of rows; done again with half the rows if it runs out of the device's memory.
    count : int
        Number of rows.
    size : int
        Rows of the first slice, at least 1; halved for good where they do not fit.
    """
    start = 0
    while start < count:
        rows = slice(start, min(start + size, count))
        try:
            result = work(rows)
        except Exception as error:
            if not is_out_of_device_memory(error) or size == 1:
                raise
            size = max(1, min(size, rows.stop - start) // 2)
        else:
            yield result
            start = rows.stop
            continue
        free_cached_memory()  # outside of the handler, whose exception holds what the piece had allocated


def rows_within(limit: int, bytes_a_row: int) -> int:
    """Return how many rows of `bytes_a_row` fit into `limit` bytes, at least 1."""
    return max(1, limit // max(1, bytes_a_row))


def network_batch(bytes_an_input: int) -> int:
    """Return the number of inputs of a network to send to the GPU at first."""
    import torch

    kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()  # by torch, for later
    free = torch.cuda.mem_get_info()[0] + kept
    return rows_within(min(free // SHARE, MOST_BYTES * SPREAD), bytes_an_input * SPREAD)


def is_out_of_device_memory(error: BaseException) -> bool:
    """Return whether `error` says that the memory of a device is full, as torch, cuBLAS or FAISS says it."""
    text = str(error)
    return isinstance(error, RuntimeError) and any(sign in text for sign in TOO_LARGE)


def free_cached_memory() -> None:
    """Return memory that torch keeps for later to the GPU; does nothing where that fails."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    try:
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
    except Exception:  # of a GPU that has failed
        return


class _PrecisionUsers:
    """Counts who computes in full precision: torch's settings belong to the process."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.before: list[str] = []


_users = _PrecisionUsers()


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply and convolve in float32 on a GPU, as on a CPU: convolutions have 10 bits (TF32) by default."""
    import torch

    cudnn: Any = torch.backends.cudnn  # whose parts its annotations lack
    backends: tuple[Any, ...] = (cudnn.conv, cudnn.rnn, torch.backends.cuda.matmul)
    with _users.lock:
        if not _users.count:
            _users.before = [backend.fp32_precision for backend in backends]
            for backend in backends:
                backend.fp32_precision = "ieee"
        _users.count += 1
    try:
        yield
    finally:
        with _users.lock:
            _users.count -= 1
            if not _users.count:
                for backend, precision in zip(backends, _users.before, strict=True):
                    backend.fp32_precision = precision
