"""Progress of an indexing run for another program, a few times a second."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from indexer.index_summary import IndexSummary

REPORT_SECONDS = 0.2  # between reports


@dataclass(frozen=True)
class JobProgress:
    """Files done and refused so far. total: None until they are counted."""

    done: int
    total: int | None
    refused: int


class ThrottledProgress:
    """Sends progress through `send`, at most five times a second. total: number of files, once they are counted.

    The latest is sent at the end. If the reader has ended (`send` raises OSError), the run is interrupted and ends in
    order.
    """

    def __init__(self, send: Callable[[JobProgress], None]) -> None:
        self.total: int | None = None
        self._send = send
        self._last_sent = 0.0
        self._latest: JobProgress | None = None

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Send the progress, unless it has just been sent."""
        self._latest = JobProgress(done, self.total, summary.refused)
        if time.monotonic() - self._last_sent >= REPORT_SECONDS:
            self._last_sent = time.monotonic()
            self._send_latest()

    def begin_stage(self, stage: str) -> None:
        """Send nothing: programs follow the number of files."""

    def show_stage(self, stage: str, done: int, total: int) -> None:
        """Send nothing of a `stage`, `done` and `total` steps: programs follow the number of files."""

    def __enter__(self) -> "ThrottledProgress":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(KeyboardInterrupt):
            self._send_latest()

    def _send_latest(self) -> None:
        if self._latest:
            try:
                self._send(self._latest)
            except OSError:
                raise KeyboardInterrupt from None
