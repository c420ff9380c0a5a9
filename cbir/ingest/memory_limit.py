"""Limit of the memory that a process may allocate for one task."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

STATM = Path("/proc/self/statm")


@contextmanager
def memory_limit(most_bytes: int) -> Iterator[None]:
    """Let this process allocate at most `most_bytes` more; allocations beyond that fail, usually with MemoryError.

    Private memory counts (RLIMIT_DATA), of all threads. On systems without /proc there is no limit.
    """
    if resource is None or not STATM.exists():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(STATM.read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE") + most_bytes
    bounds = [value for value in (limit, soft, hard) if value != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
