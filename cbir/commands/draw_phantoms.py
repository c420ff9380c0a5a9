"""`cbir phantoms`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from cbir.commands.output import StageBars
from cbir.datasets.phantoms import write_phantoms


def draw_phantoms(
    out: Annotated[Path, Argument(help="Folder for the images.")],
    count: Annotated[int, Option(help="Number of images.")] = 200,
    format: Annotated[Literal["png", "dicom"], Option(help="Format of the files.")] = "png",
    seed: Annotated[int, Option(help="Random seed; another one gives other patients.")] = 0,
    size: Annotated[int, Option(help="Pixels of the longer side, 32 to 4096.")] = 256,
) -> None:
    """Draw synthetic radiographs with labels, for trying out the program."""
    with StageBars() as bars:
        manifest = write_phantoms(
            out,
            count,
            format=format,
            seed=seed,
            size=size,
            on_progress=lambda done: bars.show("drawing", done, max(count, 1)),
        )
    typer.echo(f"{count} phantoms in {out}, labels in {manifest}")
    typer.echo(f"next: cbir index {out} --collection DIR --labels {manifest}")
