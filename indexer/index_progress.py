"""Progress of an indexing run on stderr: a bar for people, lines of JSON for programs."""

import json
import sys
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from indexer.index_run import IndexSummary

LINE_SECONDS = 0.2  # between lines


class ProgressBar:
    """A bar on stderr. total: number of files, once they are counted."""

    def __init__(self) -> None:
        self.total: int | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]:.0f}/s"),
            TimeRemainingColumn(),
            TextColumn("[red]{task.fields[refused]}"),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("indexing", total=None, refused="", rate=0.0)
        self._started = time.monotonic()

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Update the bar to `done` files."""
        rate = done / max(time.monotonic() - self._started, 1e-3)
        refused = f"{summary.refused} refused" if summary.refused else ""
        self._bar.update(self._task, completed=done, total=self.total, refused=refused, rate=rate)


class ProgressLines:
    """Lines of JSON on stderr, {"done": files, "total": files, "refused": files}, at most five a second.

    If the reader closes stderr, the run is interrupted and ends in order.
    """

    def __init__(self) -> None:
        self.total: int | None = None
        self._last_written = 0.0
        self._latest: dict[str, int | None] | None = None

    def __enter__(self) -> "ProgressLines":
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest:
            self._write()

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Write a line, unless one has just been written. Raises KeyboardInterrupt if stderr is closed."""
        self._latest = {"done": done, "total": self.total, "refused": summary.refused}
        now = time.monotonic()
        if now - self._last_written < LINE_SECONDS:
            return
        self._last_written = now
        if not self._write():
            raise KeyboardInterrupt

    def _write(self) -> bool:
        try:
            print(json.dumps(self._latest), file=sys.stderr, flush=True)
        except BrokenPipeError:
            return False
        return True
