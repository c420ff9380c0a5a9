"""`cbir phantoms`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from cbir.commands.output import StageBars
from cbir.datasets.phantoms import write_phantom_series, write_phantoms
from cbir.errors import InvalidInput

IMAGES, IMAGE_SIZE = 200, 256
SERIES, SLICES, SLICE_SIZE = 28, 24, 128


def draw_phantoms(
    out: Annotated[Path, Argument(help="Folder for the images.")],
    count: Annotated[
        int | None, Option(help="Number of images, or of series.", show_default=f"{IMAGES}; {SERIES} series")
    ] = None,
    format: Annotated[
        Literal["png", "dicom"] | None,
        Option(help="Format of the files.", show_default="png; dicom for series"),
    ] = None,
    seed: Annotated[int, Option(help="Random seed; another one gives other patients.")] = 0,
    size: Annotated[
        int | None,
        Option(
            help="Pixels of the longer side, 32 to 4096.",
            show_default=f"{IMAGE_SIZE}; {SLICE_SIZE} for series",
        ),
    ] = None,
    series: Annotated[bool, Option("--series", help="Draw CT series with lesions.")] = False,
    slices: Annotated[
        int | None, Option(help="Slices of a series, 1 to 200.", show_default=str(SLICES))
    ] = None,
) -> None:
    """Draw synthetic radiographs with labels, or CT series with known lesions, for trying out the program."""
    if slices is not None and not series:
        raise InvalidInput("--slices is for series; add --series, or leave it out")
    if series and format == "png":
        raise InvalidInput("--series writes DICOM files; leave --format out")
    count = count if count is not None else SERIES if series else IMAGES
    with StageBars() as bars:

        def show(done: int) -> None:
            bars.show("drawing", done, max(count, 1))

        if series:
            side, depth = SLICE_SIZE if size is None else size, SLICES if slices is None else slices
            manifest = write_phantom_series(out, count, seed=seed, size=side, slices=depth, on_progress=show)
        else:
            side = IMAGE_SIZE if size is None else size
            manifest = write_phantoms(
                out, count, format=format or "png", seed=seed, size=side, on_progress=show
            )
    typer.echo(f"{count} {'series' if series else 'phantoms'} in {out}, labels in {manifest}")
    typer.echo(f"next: cbir index {out} --collection DIR --labels {manifest}")
