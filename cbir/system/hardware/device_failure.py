"""Failures of a GPU: what torch, CUDA and FAISS raise becomes DeviceFailed; after one, "auto" means the CPU."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

from cbir.errors import CbirError, DeviceFailed
from cbir.system.cancellation import is_cancellation

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
