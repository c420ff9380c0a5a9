"""`cbir phantoms`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cbir.datasets.phantoms import write


class Format(StrEnum):
    """What files are written."""

    png = "png"
    dicom = "dicom"


def phantoms(
    out: Annotated[Path, typer.Argument(help="Folder to write into.")],
    count: Annotated[int, typer.Option(help="How many images.")] = 200,
    format: Annotated[Format, typer.Option(help="png or dicom.")] = Format.png,
    seed: Annotated[int, typer.Option(help="Another number, other patients.")] = 0,
    size: Annotated[int, typer.Option(help="Pixels of the longer side, 32 to 4096.")] = 256,
) -> None:
    """Draw synthetic radiographs with their labels, to try everything on."""
    columns = (TextColumn("drawing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("drawing", total=max(count, 1))
        manifest = write(
            out,
            count,
            format=format.value,
            seed=seed,
            size=size,
            on_progress=lambda done: progress.update(task, completed=done),
        )
    typer.echo(f"{count} phantoms in {out}, their labels in {manifest}")
    typer.echo(f"next: cbir index {out} --collection DIR --labels {manifest}")
