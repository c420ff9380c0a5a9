"""Progress of an indexing run on stderr: a bar for people, lines of JSON for programs."""

import json
import sys
import time
from dataclasses import asdict

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from cbir.system.console import StageLines
from indexer.index_summary import IndexSummary
from indexer.throttled_progress import JobProgress, ThrottledProgress


class ProgressInLog:
    """Lines on stderr, every some seconds. total: number of files, once they are counted."""

    def __init__(self) -> None:
        self.total: int | None = None
        self._lines = StageLines()
        self._done, self._stage = 0, "indexing"

    def __enter__(self) -> "ProgressInLog":
        self._lines.__enter__()
        self._lines.show(self._stage, 0, None)
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.__exit__()

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Take the number of files done."""
        self._done = done
        self._lines.show(
            self._stage, done, self.total, f"{summary.refused} refused" if summary.refused else ""
        )

    def begin_stage(self, stage: str) -> None:
        """Name the stage in the next line."""
        self._stage = stage
        self._lines.show(stage, self._done, self.total)

    def show_stage(self, stage: str, done: int, total: int) -> None:
        """Show the steps `done` of a `stage`, and their `total`, in the next line."""
        self._lines.show(stage, done, total)


def make_progress() -> "ProgressBar | ProgressInLog":
    """Return a bar for a terminal, or lines for a log."""
    return ProgressBar() if sys.stderr.isatty() else ProgressInLog()


class ProgressBar:
    """A bar on stderr. total: number of files, once they are counted."""

    def __init__(self) -> None:
        self.total: int | None = None
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]:.0f}/s"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[refused]}", style="red", markup=False),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("indexing", total=None, refused="", rate=0.0)
        self._stages: dict[str, TaskID] = {}
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

    def begin_stage(self, stage: str) -> None:
        """Show the name of the stage in front of the bar."""
        self._bar.update(self._task, description=stage)

    def show_stage(self, stage: str, done: int, total: int) -> None:
        """Show the steps `done` of a `stage`, and their `total`, in a bar of its own."""
        if stage not in self._stages:
            self._stages[stage] = self._bar.add_task(stage, refused="", rate=0.0)
        rate = done / max(self._bar.tasks[-1].elapsed or 0.0, 1e-3)
        self._bar.update(self._stages[stage], completed=done, total=total, rate=rate)


def progress_lines() -> ThrottledProgress:
    """Return progress as lines of JSON on stderr, {"done": files, "total": files, "refused": files}."""
    return ThrottledProgress(_print_line)


def _print_line(progress: JobProgress) -> None:
    print(json.dumps(asdict(progress)), file=sys.stderr, flush=True)
