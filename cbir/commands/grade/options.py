"""What the commands of `cbir grade` have in common."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from cbir.errors import InvalidInput

Folder = Annotated[Path, typer.Option("--collection", help="Folder of the collection.")]
Column = Annotated[str, typer.Option("--grade-column", help="The label that holds the grades.")]
Where = Annotated[list[str] | None, typer.Option(help="Only images with this label, e.g. anatomy=knee.")]
SmoothingText = Annotated[
    str,
    typer.Option(
        "--smoothing",
        help="Graded images whose median grade stands for each; 1: its own (eq. 10); auto: n / 16.",
    ),
]


class Kernels(StrEnum):
    """What a ranking function is linear in."""

    auto = "auto"
    linear = "linear"
    rbf = "rbf"


KernelName = Annotated[
    Kernels,
    typer.Option(
        "--kernel", help="Of s-ndcg and ranking-svm; auto: whichever ranks held-out patients better."
    ),
]


class Format(StrEnum):
    """How results are printed."""

    text = "text"
    json = "json"


Printed = Annotated[Format, typer.Option("--format", help="How it is printed.")]


def ranker_options(name: str, kernel: Kernels) -> dict[str, str]:
    """The kernel for rankers that have one; raises InvalidInput for an unknown ranker."""
    from cbir import grading

    return {"kernel": kernel.value} if "kernel" in grading.ranker(name).get_params() else {}


def smoothing(text: str) -> int | Literal["auto"]:
    """The option --smoothing; raises InvalidInput."""
    if text == "auto":
        return "auto"
    return _whole(text, "--smoothing", "an odd number or auto")


def list_size(text: str) -> int | None:
    """The option --list-size; raises InvalidInput."""
    return None if text == "all" else _whole(text, "--list-size", "a number of images or all")


def _whole(text: str, option: str, wanted: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{option} {text}: {wanted} is needed") from None
