"""Counts and progress of runs that add images; what their commands share: options, exit codes, reports."""

import csv
import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.system.console import OutputFormat, StageBars, echo, print_json
from cbir.system.files import harmless_cell, open_private

NAMING_FILES = (
    "examples",
    "conflict_examples",
)  # parts of a summary with paths, which may be names of patients
ReportRefusal = Callable[[str, str], None]
REPORT_SECONDS = 0.2  # between reports
FramesOption = Annotated[
    str, typer.Option(help="Frames of multi-frame instances to add: all, middle, or every:N.", hidden=True)
]
BurnedInOption = Annotated[
    bool | None,
    typer.Option(
        "--burned-in/--no-burned-in",
        help="Add images that declare burned-in text. [default: setting burned_in]",
        show_default=False,
    ),
]
SecondaryCapturesOption = Annotated[
    bool, typer.Option(help="Add captures of screens and films.", hidden=True)
]
StudyDatesOption = Annotated[
    str,
    typer.Option(help="Study dates: drop, or shift (store as a label, shifted per patient).", hidden=True),
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Processes. [default: number of cores]")]
ProfileOption = Annotated[str | None, typer.Option(help="Profile of a new collection, as for cbir index.")]
RayOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Describe on a Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT; --jobs is per node then.",
    ),
]
FETCHES_A_PROCESS = 2
FORMS = re.compile(r"<([^<|>]*)\|([^<|>]*)>")
DONE, DIFFERENT, SOME_REFUSED, INTERRUPTED = 0, 1, 3, 130  # DIFFERENT: from the archive, and not applied


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


def accepts_burned_in(option: bool | None, settings: Settings) -> bool:
    """Return whether to add images that declare burned-in text: as the option says, else the setting."""
    return settings.burned_in == "accept" if option is None else option


@contextmanager
def refusal_report(path: Path | None, *columns: str) -> Iterator[Callable[..., None]]:
    """Yield a function that writes a row `path,reason` at once, or does nothing if `path` is None.

    `columns` are the names of the columns before the reason, of what is refused.

    Paths may be names of patients, so only its owner can read a new file.
    A cell that a spreadsheet would run as a formula begins with an apostrophe. Raises InvalidInput, before anything
    is done, if the file cannot be written.
    """
    if path is None:
        yield lambda *cells: None
        return
    try:
        file = open(path, "w", newline="", encoding="utf-8", opener=open_private)  # noqa: SIM115 - closed below
    except OSError as error:
        raise InvalidInput(f"the report {path} cannot be written: {error.strerror}") from error
    with file:
        rows = csv.writer(file)
        rows.writerow([*(columns or ("path",)), "reason"])

        def write_row(*cells: str) -> None:
            rows.writerow(map(harmless_cell, cells))  # a reason may begin with the name of the file
            file.flush()

        yield write_row


def print_speed(images: int, done: str, describing: float, whole: float) -> None:
    """Print how many images were described a second, and how long the rest took.

    Parameters
    ----------
    images : int
        Number of images.
    done : str
        What they were: indexed, ...
    describing, whole : float
        Seconds until they were described, and of the whole run.
    """
    rate = images / describing if describing else 0.0
    rest = whole - describing
    echo(
        f"{images} {'image' if images == 1 else 'images'} {done} in {describing:.1f} s ({rate:.0f} a second)"
        + (f"; index and re-rankers took {rest:.1f} s more" if rest >= 1.0 else "")
    )


def print_counts(
    counts: Iterable[tuple[int, str]],
    examples: Sequence[tuple[str, str]] = (),
    listed: int = 0,
    report: Path | None = None,
    interrupted: bool = False,
) -> None:
    """Print the counts that are not 0, then examples of what was refused.

    Parameters
    ----------
    counts : iterable of (int, str)
        Numbers with what they count, where <one|several> are its words for one and for several.
    examples : sequence of (str, str)
        First few items with their reasons.
    listed : int
        Number of all items with a reason.
    report : Path, optional
        File that contains all of them.
    interrupted : bool
        Whether the run has to be continued.
    """
    for count, words in counts:
        if count:
            form = FORMS.sub(r"\1" if count == 1 else r"\2", words)
            echo(f"{count} {form}")
    for name, reason in examples:
        echo(f"  {name}: {reason}")
    if listed > len(examples):
        echo("  ... " + (f"all in {report}" if report else "--report FILE writes them all"))
    if interrupted:
        echo("interrupted; run the same command again to continue")


def print_totals(counts: Iterable[tuple[str, int]], format: OutputFormat, nothing: str) -> None:
    """Print the counts that are not 0, by name.

    Parameters
    ----------
    counts : iterable of (str, int)
        Names and numbers.
    format : OutputFormat
        JSON, or one line.
    nothing : str
        The line where all are 0.
    """
    totals = dict(sorted((name, number) for name, number in counts if number))
    if format is OutputFormat.json:
        print_json(totals)
    else:
        echo(", ".join(f"{number} {name}" for name, number in totals.items()) or nothing)


def handle_signals(handler: Any) -> None:
    """Let `handler` handle what stops a command: SIGTERM and Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
