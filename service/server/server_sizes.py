"""Sizes that every HTTP server has: threads, open files, and the connections that these leave room for."""

import os

from cbir.settings import Settings
from cbir.system.files import raise_file_limit

SPARE_THREADS = 8  # for refusals while all others are busy
KEEPALIVE_SECONDS = (
    75  # longer than proxies and clients keep connections, which would otherwise use a closed one
)


def count_threads(settings: Settings) -> int:
    """Return the number of threads that answer requests."""
    return settings.threads + settings.queue + SPARE_THREADS


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MAX_CONNECTIONS = 1000
MIN_CONNECTIONS = 16
HEADROOM = 64  # files that requests open while they are answered
FILES_PER_THREAD = 4  # database connections and images
FOLDERS_OF_FILES = ("/proc/self/fd", "/dev/fd")


def prepare_limit(threads: int) -> None:
    """Raise the soft limit of open files as far as the service needs it.

    Raises InvalidInput if even the hard limit is too low for `threads` and a few connections.
    """
    needed = MAX_CONNECTIONS + FILES_PER_THREAD * threads + HEADROOM
    raise_file_limit(needed, MIN_CONNECTIONS + threads + HEADROOM)


def connections_allowed(connections: int) -> int:
    """Return how many connections the limit of open files has room for now, of which `connections` are open."""
    if resource is None:
        return MAX_CONNECTIONS
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    try:
        others = max(0, _open_files() - connections)
    except OSError:  # no file is free to count them with
        return max(0, connections - MIN_CONNECTIONS)
    free = max(0, soft - others)
    return min(MAX_CONNECTIONS, max(free - HEADROOM, min(MIN_CONNECTIONS, free // 2)))


def _open_files() -> int:
    for folder in FOLDERS_OF_FILES:
        try:
            return len(os.listdir(folder))
        except FileNotFoundError:
            continue
    return 2 * HEADROOM
