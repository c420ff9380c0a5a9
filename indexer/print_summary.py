"""The end of the text that commands print about a run: counts, refused items and how to go on."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from cbir.system.console import echo


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
    counts: Iterable[tuple[int, str, str]],
    examples: Sequence[tuple[str, str]],
    listed: int,
    report: Path | None,
    interrupted: bool,
) -> None:
    """Print the counts that are not 0, then examples of what was refused.

    Parameters
    ----------
    counts : iterable of (int, str, str)
        Numbers with what they count: one, and several.
    examples : sequence of (str, str)
        First few items with their reasons.
    listed : int
        Number of all items with a reason.
    report : Path, optional
        File that contains all of them.
    interrupted : bool
        Whether the run has to be continued.
    """
    for count, one, several in counts:
        if count:
            echo(f"{count} {one if count == 1 else several}")
    for name, reason in examples:
        echo(f"  {name}: {reason}")
    if listed > len(examples):
        echo("  ... " + (f"all in {report}" if report else "--report FILE writes them all"))
    if interrupted:
        echo("interrupted; run the same command again to continue")
