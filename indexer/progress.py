"""How far an indexing run has come: for people, and for programs."""

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

from indexer.run import Summary

LINE_SECONDS = 0.2  # between lines


class Bar:
    """A bar on stderr. total: files, once they are counted."""

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

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, summary: Summary) -> None:
        """Show it."""
        rate = done / max(time.monotonic() - self._started, 1e-3)
        refused = f"{summary.refused} refused" if summary.refused else ""
        self._bar.update(self._task, completed=done, total=self.total, refused=refused, rate=rate)


class Lines:
    """Lines of JSON on stderr, {"done": files, "total": files, "refused": files}, five a second at most.

    When nobody reads them any more, whoever asked for the run has gone: it is interrupted, and ends in order.
    """

    def __init__(self) -> None:
        self.total: int | None = None
        self._last = 0.0
        self._latest: dict[str, int | None] | None = None

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest:
            self._write()

    def __call__(self, done: int, summary: Summary) -> None:
        """Write a line, unless one has just been written; raises KeyboardInterrupt where nobody reads it."""
        self._latest = {"done": done, "total": self.total, "refused": summary.refused}
        now = time.monotonic()
        if now - self._last < LINE_SECONDS:
            return
        self._last = now
        if not self._write():
            raise KeyboardInterrupt

    def _write(self) -> bool:
        try:
            print(json.dumps(self._latest), file=sys.stderr, flush=True)
        except BrokenPipeError:
            return False
        return True
