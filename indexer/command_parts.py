"""Parts of the commands that add images: options, exit codes, the report of refused items, the printed end."""

import csv
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.system.console import OutputFormat, echo, print_json
from cbir.system.files import harmless_cell, open_private

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


def accepts_burned_in(option: bool | None, settings: Settings) -> bool:
    """Return whether to add images that declare burned-in text: as the option says, else the setting."""
    return settings.burned_in == "accept" if option is None else option


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


@contextmanager
def refusal_report(path: Path | None, *columns: str) -> Iterator[Callable[..., None]]:
    """Yield a function that writes a row `path,reason` at once, or does nothing if `path` is None.

    `columns` are the names of the columns before the reason, of what is refused.

    Paths may be names of patients, so only its owner can read a new file.
    A path that a spreadsheet would run as a formula begins with an apostrophe. Raises InvalidInput, before anything
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
            rows.writerow([*map(harmless_cell, cells[:-1]), cells[-1]])
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
