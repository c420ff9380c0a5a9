"""`cbir describe`."""

import json
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from cbir import descriptors, settings
from cbir.errors import InvalidInput
from cbir.images import Limits, read_images


class Format(StrEnum):
    """How the values are printed."""

    text = "text"
    json = "json"


def describe(
    image: Annotated[Path, typer.Argument(help="An image file.")],
    descriptor: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(descriptors.names())}, a trained embedding's folder, or both: FOLDER+NAME."
        ),
    ] = "huang2012",
    frame: Annotated[int, typer.Option(help="Frame of a multi-frame file, from 1.", min=1)] = 1,
    format: Annotated[Format, typer.Option(help="How the values are printed.")] = Format.text,
) -> None:
    """Print the descriptor of one image."""
    in_force = settings.load()
    name, _, model = descriptors.resolve_descriptor(descriptor)
    wanted = descriptors.get(name, model, in_force.device)
    frames = read_images(image, limits=Limits(pixels=in_force.max_pixels))
    found = next(islice(frames, frame - 1, None), None)
    if found is None:
        raise InvalidInput(f"{image} has no frame {frame}; frames are counted from 1")
    values = printable(wanted(found))
    if format is Format.json:
        typer.echo(json.dumps({"descriptor": wanted.name, "values": values}))
        return
    for part in wanted.parts:
        typer.echo(" ".join([part.name, *map(str, values[part.start : part.stop])]))


def printable(vector: NDArray[np.float32]) -> list[int] | list[float]:
    """Whole numbers where all are whole, else the shortest decimals that give the same float32 again."""
    if (vector == np.rint(vector)).all():
        return [int(value) for value in vector]
    return [float(str(value)) for value in vector]
