"""Memory of this process, its limit for one task, and bytes of a file that are handed to another process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cbir.images.image import watch_frames

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

STATM = Path("/proc/self/statm")

FRAME_COPIES = 4  # of a frame that the decoder of any format and the steps after it hold at a time


@contextmanager
def memory_limit(most_bytes: int, above: int | None = None) -> Iterator[None]:
    """Let this process have at most `most_bytes` of private memory (RLIMIT_DATA) above what it has, or `above`.

    A frame that the header of an image declares within its limits adds `FRAME_COPIES` times its size, so that the
    limit depends on the image alone. Allocations beyond that fail, usually with MemoryError. On systems without /proc
    there is no limit.
    """
    if resource is None or not STATM.exists():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    largest = 0  # frame
    limit = (private_memory() if above is None else above) + most_bytes

    def allow(frame_bytes: int) -> None:
        nonlocal largest
        largest = max(largest, frame_bytes)
        bounds = [limit + FRAME_COPIES * largest, soft, hard]
        least = min(value for value in bounds if value != resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_DATA, (least, hard))

    allow(0)
    try:
        with watch_frames(allow):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


SharedBytes = bytes | str  # the bytes, or the path of an open memory file


@contextmanager
def share_bytes(data: bytes) -> Iterator[SharedBytes]:
    """Yield a handle to `data` for `load_shared_bytes` in a child process. The bytes never reach a disk."""
    if not hasattr(os, "memfd_create"):  # Linux only
        yield data
        return
    with open(os.memfd_create("instance"), "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def load_shared_bytes(shared: SharedBytes) -> bytes:
    """Return the bytes behind `shared`."""
    if isinstance(shared, bytes):
        return shared
    with open(shared, "rb") as file:
        return file.read()


def private_memory() -> int:
    """Return the private memory of this process that `memory_limit` counts, in bytes; 0 without /proc."""
    return (
        int(STATM.read_text(encoding="utf-8").split()[5]) * os.sysconf("SC_PAGE_SIZE")
        if STATM.exists()
        else 0
    )


def resident_memory() -> int | None:
    """Return the memory of the machine that this process takes, in bytes; None without /proc."""
    if not STATM.exists():
        return None
    return int(STATM.read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
