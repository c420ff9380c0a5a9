"""Sizes that every HTTP server has."""

from cbir.settings import Settings

SPARE_THREADS = 8  # for refusals while all others are busy
KEEPALIVE_SECONDS = (
    75  # longer than proxies and clients keep connections, which would otherwise use a closed one
)


def count_threads(settings: Settings) -> int:
    """Return the number of threads that answer requests."""
    return settings.threads + settings.queue + SPARE_THREADS
