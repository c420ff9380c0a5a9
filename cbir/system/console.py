"""Printed output of the commands: text that a terminal shows and does not obey, tables, JSON, and progress."""

import re
import sys
import threading
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from typer import Option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return `text` with a sign for each character that controls a terminal: names of files may have them."""
    return CONTROL.sub("\ufffd", text)


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a line for people, or to the error stream; what other programs read is printed by `typer.echo`."""
    typer.echo(printable(str(text)), err=err)


STARTING = "starting"  # stage until another is named

FIRST_SECONDS = 2.0  # before the first line: short commands print none

EVERY_SECONDS = 10.0


class StageLines:
    """Prints the latest stage on stderr, first after two seconds, then every ten; also while a stage stands still."""

    def __init__(self, first: float = FIRST_SECONDS, every: float = EVERY_SECONDS) -> None:
        self._seconds = first, every
        self._started = time.monotonic()
        self._latest = STARTING
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        self._thread.join()

    def show(self, stage: str, done: int, total: int | None, note: str = "") -> None:
        """Set the state of a stage for the next line.

        Parameters
        ----------
        stage : str
            Name of the stage.
        done : int
            Steps completed.
        total : int, optional
            Steps of the stage; None if they are not known.
        note : str
            Text after the counts.
        """
        counts = f"{done} of {total}" if total is not None else str(done or "")
        if total == 1:  # one step: only that it is under way is known
            counts = ""
        details = ", ".join(filter(None, (counts, note)))
        self._latest = f"{stage}: {details}" if details else stage

    def _print_lines(self) -> None:
        first, every = self._seconds
        wait = first
        while not self._end.wait(wait):
            seconds = time.monotonic() - self._started
            print(f"{self._latest} ({seconds:.0f} s)", file=sys.stderr, flush=True)
            wait = every


TABLE_WIDTH = 200  # columns of a table that is not printed to a terminal


class OutputFormat(StrEnum):
    """Formats of printed results."""

    text = "text"
    json = "json"


Printed = Annotated[OutputFormat, Option("--format", help="Output format.")]


def print_json(values: object, strict: bool = False) -> None:
    """Print JSON; with `strict`, null for numbers that are not finite."""
    import json  # `cbir --help` starts without it

    text = json.dumps(values)
    typer.echo(json.dumps(json.loads(text, parse_constant=lambda _: None)) if strict else text)


def print_values(values: Mapping[str, object], format: OutputFormat) -> None:
    """Print named values: JSON, or a line each."""
    if format is OutputFormat.json:
        print_json(values)
        return
    for name, value in values.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {inner}" for key, inner in value.items()) or None
        elif isinstance(value, float):
            value = f"{value:.4f}"
        echo(f"{name.replace('_', ' '):22}{'-' if value is None else value}")


def results_console() -> "Console":
    """Return a console for tables, wide enough for results that are piped to another program.

    It prints text as it is: names of files and values of labels may look like Rich's markup.
    """
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        """Takes nothing in a text for markup, an emoji or a sequence that controls the terminal."""

        def render_str(self, text: str, **options: Any) -> Text:
            """Convert a text that is printed, or is in a table."""
            return super().render_str(printable(text), **options)

    width = None if Console().is_terminal else TABLE_WIDTH
    return PlainConsole(width=width, markup=False, emoji=False)


class StageBars:
    """Progress on stderr: a bar per stage on a terminal, lines in a log."""

    def __init__(self) -> None:
        self._lines: StageLines | None = None
        if not sys.stderr.isatty():
            self._lines = StageLines()
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        self._bars = Progress(*columns, console=Console(stderr=True))
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        if self._lines:
            self._lines.__enter__()
        else:
            self._bars.start()
            self.show(STARTING)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._lines:
            self._lines.__exit__()
        else:
            self.end(STARTING)
            self._bars.stop()

    def end(self, stage: str) -> None:
        """Remove the bar of a stage, if there is one."""
        if not self._lines and stage in self._tasks:
            self._bars.remove_task(self._tasks.pop(stage))

    def show(self, stage: str, done: int = 0, total: int | None = None, note: str = "") -> None:
        """Update the bar of a stage.

        Parameters
        ----------
        stage : str
            Name of the stage; a new one adds a bar.
        done : int
            Steps completed.
        total : int, optional
            Steps of the stage; None if they are not known.
        note : str
            Text after the bar.
        """
        if self._lines:
            self._lines.show(stage, done, total, note)
            return
        if stage not in self._tasks:
            self.end(STARTING)
            self._tasks[stage] = self._bars.add_task(stage, total=total, note=note)
        self._bars.update(self._tasks[stage], completed=done, total=total, note=note)
