"""Failures of a GPU, after which "auto" means the CPU, and work in pieces that fit into the memory of a device."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

from cbir.errors import CbirError, DeviceFailed
from cbir.system.threads import is_cancellation

T = TypeVar("T")

LONGEST = 200  # characters of a reason

log = logging.getLogger(__name__)


class _FailureLog:
    """Failures of the GPU in this process. Thread-safe."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.given_up: str | None = None  # the reason why "auto" no longer uses the GPU


_failures = _FailureLog()


@contextmanager
def device_failures(work: str, device: str = "cuda") -> Iterator[None]:
    """Raise DeviceFailed in place of anything that a device or its library raises during `work`.

    Our own errors and cancellations pass through.

    Parameters
    ----------
    work : str
        What is done, for the message.
    device : str
        A GPU, whose failures are counted; "faiss" for FAISS on the CPU; "cpu" changes nothing.
    """
    try:
        yield
    except (
        Exception
    ) as error:  # torch and FAISS raise RuntimeError, but also AssertionError, MemoryError, OSError
        if device == "cpu" or isinstance(error, CbirError) or is_cancellation(error):
            raise
        if device != "faiss":
            with _failures.lock:
                _failures.count += 1
        name = "FAISS" if device == "faiss" else "the GPU"
        raise DeviceFailed(f"{name} failed ({work}): {first_line(error)}") from error


def on_gpu_or_cpu(device: str, on_gpu: Callable[[], T], on_cpu: Callable[[], T]) -> T:
    """Return what `on_gpu` returns; if the GPU fails, give it up and return what `on_cpu` does.

    Parameters
    ----------
    device : "auto" or "cuda"
        Setting; with "cuda" DeviceFailed is raised instead.
    on_gpu, on_cpu : callable
        The same work on both devices.
    """
    try:
        return on_gpu()
    except DeviceFailed as error:
        if device != "auto":
            raise with_remedy(error) from error
        log.debug("where the device failed", exc_info=error)
        give_up_gpu(str(error))
    return on_cpu()  # outside of the handler, whose exception holds what was on the GPU


def with_remedy(error: DeviceFailed) -> DeviceFailed:
    """Return the failure of a GPU that the settings insist on, with what to do."""
    return DeviceFailed(f"{error}; set device=cpu or auto to compute on the CPU")


def give_up_gpu(reason: str) -> None:
    """Let "auto" mean the CPU for the rest of this process; the first `reason` is logged, once."""
    with _failures.lock:
        if _failures.given_up is not None:
            return
        _failures.given_up = reason
    log.warning("%s; the CPU computes from now on", reason)


def gpu_failure() -> str | None:
    """Return why "auto" no longer uses the GPU; None while it does."""
    return _failures.given_up


def failure_count() -> int:
    """Return the number of times that a GPU failed in this process."""
    return _failures.count


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the line of its text that says what failed, without FAISS's place of it."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    text = lines[0].rsplit("Error: ", 1)[-1] if lines[0].startswith("Error in ") else lines[0]
    return f"{type(error).__name__}: {text.strip()}"[:LONGEST]


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
