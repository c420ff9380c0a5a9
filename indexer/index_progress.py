"""The counts of an indexing run, and its progress: a bar, lines of a log, lines of JSON, or messages of a job."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from cbir.system.console import StageBars

NAMING_FILES = (
    "examples",
    "conflict_examples",
)  # parts of a summary with paths, which may be names of patients


@dataclass
class IndexSummary:
    """Counts of a run.

    files: walked. indexed: images added. already: files that were in the collection. relabelled: those of them
    whose labels or patient changed, and duplicates that brought labels. duplicates: images left out because the same
    picture is in the collection. deleted_earlier: images left out because someone deleted them. flagged, quarantined:
    images with a finding of the intake check. refused: files without a usable image; the first few of them with their
    reasons in `examples`. manifest_unused: rows whose file is not in the sources. manifest_lost: rows whose labels
    are with no picture, since their file was refused or its picture deleted earlier. completed: files whose images
    got facts that an older version had not read in their headers. conflicts: labels of duplicates that differ from
    those of the picture, which stay; the first few are in `conflict_examples`. seconds: of the whole run.
    describing_seconds: until all files were described and added.
    """

    files: int = 0
    indexed: int = 0
    already: int = 0
    relabelled: int = 0
    duplicates: int = 0
    deleted_earlier: int = 0
    flagged: int = 0
    quarantined: int = 0
    refused: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)
    manifest_unused: int = 0
    manifest_lost: int = 0
    completed: int = 0
    conflicts: int = 0
    conflict_examples: list[tuple[str, str]] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0
    describing_seconds: float = 0.0


ReportRefusal = Callable[[str, str], None]


class ProgressReport(Protocol):
    """Receives the progress of a run, in a context. total: number of files, None until they are counted."""

    total: int | None

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: object) -> None: ...

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Take the number of files done, and the summary so far."""
        ...

    def begin_stage(self, stage: str) -> None:
        """Take the name of what follows: the nodes at work, or what is done when all files are."""
        ...

    def show_stage(self, stage: str, done: int, total: int) -> None:
        """Take the steps `done` of a `stage` that comes when all files are, and their `total`."""
        ...


REPORT_SECONDS = 0.2  # between reports


@dataclass(frozen=True)
class JobProgress:
    """Files done and refused so far. total: None until they are counted."""

    done: int
    total: int | None
    refused: int


class NoProgress:
    """Shows nothing."""

    def __init__(self) -> None:
        self.total: int | None = None

    def __enter__(self) -> "NoProgress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Ignore the number of files."""

    def begin_stage(self, stage: str) -> None:
        """Ignore the stage."""

    def show_stage(self, stage: str, done: int, total: int) -> None:
        """Ignore the steps `done` of a `stage`, and their `total`."""


class ThrottledProgress(NoProgress):
    """Sends progress through `send`, at most five times a second. total: number of files, once they are counted.

    It sends nothing of stages: programs follow the number of files. The latest is sent at the end. If the reader has
    ended (`send` raises OSError), the run is interrupted and ends in order.
    """

    def __init__(self, send: Callable[[JobProgress], None]) -> None:
        super().__init__()
        self._send = send
        self._last_sent = 0.0
        self._latest: JobProgress | None = None

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Send the progress, unless it has just been sent."""
        self._latest = JobProgress(done, self.total, summary.refused)
        if time.monotonic() - self._last_sent >= REPORT_SECONDS:
            self._last_sent = time.monotonic()
            self._send_latest()

    def __exit__(self, *_: object) -> None:
        with suppress(KeyboardInterrupt):
            self._send_latest()

    def _send_latest(self) -> None:
        if self._latest:
            try:
                self._send(self._latest)
            except OSError:
                raise KeyboardInterrupt from None


class ShownProgress(NoProgress):
    """A bar on a terminal, or lines of a log, on stderr. total: number of files, once they are counted."""

    def __init__(self) -> None:
        super().__init__()
        self._bars, self._stage, self._done = StageBars(), "indexing", 0
        self._started = time.monotonic()

    def __enter__(self) -> "ShownProgress":
        self._bars.__enter__()
        self._bars.show(self._stage)
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.__exit__()

    def __call__(self, done: int, summary: IndexSummary) -> None:
        """Show the number of files done, how many that is a second, and those refused."""
        self._done = done
        rate = done / max(time.monotonic() - self._started, 1e-3)
        refused = f", {summary.refused} refused" if summary.refused else ""
        self._bars.show(self._stage, done, self.total, f"{rate:.0f}/s{refused}")

    def begin_stage(self, stage: str) -> None:
        """Name what the files are counted for from now on."""
        self._bars.end(self._stage)
        self._stage = stage
        self._bars.show(stage, self._done, self.total)

    def show_stage(self, stage: str, done: int, total: int) -> None:
        """Show the steps `done` of a `stage`, and their `total`, by themselves."""
        self._bars.show(stage, done, total)


def progress_lines() -> ThrottledProgress:
    """Return progress as lines of JSON on stderr, {"done": files, "total": files, "refused": files}."""
    return ThrottledProgress(_print_line)


def _print_line(progress: JobProgress) -> None:
    print(json.dumps(asdict(progress)), file=sys.stderr, flush=True)
