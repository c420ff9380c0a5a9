"""`cbir grade slit-lamp fit`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput, UnreadableImage
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json

if TYPE_CHECKING:
    from cbir.images import Limits

Floats = NDArray[np.float64]


def fit_slit_lamp(
    outlines: Annotated[
        Path,
        Argument(
            help="csv with a row for each landmark: path of the image, x and y in pixels; see docs/grading.md."
        ),
    ],
    out: Annotated[Path, Option(help="Folder for the model.")],
    variance: Annotated[
        float, Option(min=0.5, max=1.0, help="Share of the outlines' variance that the model keeps.")
    ] = 0.98,
    format: Printed = OutputFormat.text,
) -> None:
    """Learn to find the lens in slit-lamp images from images with outlines."""
    from cbir.descriptors.lens_outlines import read_outlines
    from cbir.descriptors.slit_lamp.lens_finder import fit_lens_finder
    from cbir.descriptors.slit_lamp.stored_lens_finder import write_lens_finder
    from cbir.images import Limits

    limits, pictures, contours = Limits.from_settings(settings.load()), [], []
    contour_of = read_outlines(outlines)
    with StageBars() as bars:
        for path, contour in contour_of.items():
            picture, scaled = _read_outlined(path, contour, limits)
            pictures.append(np.rint(picture).astype(np.uint8))  # an eighth of the memory
            contours.append(scaled)
            bars.show("reading", len(pictures), len(contour_of))
        finder, errors = fit_lens_finder(
            pictures, contours, variance, lambda done, total: bars.show("fitting", done, total)
        )
        card = write_lens_finder(finder, errors, out)
    if format is OutputFormat.json:
        print_json(card)
        return
    echo(f"model of {card['landmarks']} landmarks from {card['images']} images in {out}")
    echo(
        f"outlines of left-out images are off by {errors.mean():.2%} of the image's height on average, "
        f"{errors.max():.2%} at most"
    )
    echo(f"next: cbir index FOLDER --labels MANIFEST --profile {out} --collection DIR")


def _read_outlined(path: Path, contour: Floats, limits: "Limits") -> tuple[Floats, Floats]:
    """Read an image, and scale it with its outline for the model; raises InvalidInput if they do not fit."""
    import cv2

    from cbir.descriptors.slit_lamp.lens_finder import to_grey
    from cbir.descriptors.slit_lamp.shape_model import scale_outlined
    from cbir.images import read_images

    try:
        image = next(iter(read_images(path, limits=limits)))
        if image.pixels.ndim != 3:
            raise UnreadableImage("the image is grey; slit-lamp features need colour")
        if (contour < -0.5).any() or (contour > (image.width - 0.5, image.height - 0.5)).any():
            raise UnreadableImage(f"the outline leaves the image of {image.width} x {image.height} pixels")
        if cv2.contourArea(contour.astype(np.float32)) < 1:
            raise UnreadableImage("the outline encloses nothing")
        return scale_outlined(to_grey(image.pixels), contour)
    except UnreadableImage as error:
        raise InvalidInput(f"{path}: {error}") from error
