"""Log of refused connections, by address and reason, which a flood of them does not fill."""

import logging
import threading
import time

INTERVAL_SECONDS = 60.0
MAX_ENTRIES = 1000


class RefusalLog:
    """Logs each address with each reason once a minute, and how many more there were; nothing that peers send."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._entries: dict[
            tuple[str, str], tuple[float, int]
        ] = {}  # when it was logged last, and how many since

    def report(self, address: str, reason: str) -> None:
        """Log a refused connection, or count it."""
        now, key = time.monotonic(), (address, reason)
        with self._lock:
            logged_at, more = self._entries.pop(key, (-INTERVAL_SECONDS, 0))
            due = now - logged_at >= INTERVAL_SECONDS
            self._entries[key] = (now, 0) if due else (logged_at, more + 1)
            if len(self._entries) > MAX_ENTRIES:
                del self._entries[next(iter(self._entries))]
        if due:
            repeated = f", {more} more before" if more else ""
            self._log.info("a connection from %s was refused: %s%s", address, reason, repeated)
