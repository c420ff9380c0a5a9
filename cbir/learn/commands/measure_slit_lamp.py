"""`cbir grade slit-lamp features`."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput, UnreadableImage
from cbir.system.console import StageBars, echo, print_json
from cbir.system.csv_cells import harmless_cell
from cbir.system.files import private_folder, write_bytes

SOME_REFUSED = 3  # exit code, as of cbir index


def measure_slit_lamp(
    images: Annotated[list[Path], Argument(help="Slit-lamp images.")],
    model: Annotated[Path, Option(help="Folder of a model that `cbir grade slit-lamp fit` wrote.")],
    report: Annotated[
        Path | None, Option(help="Folder for a picture of each image with the outline that was found.")
    ] = None,
    format: Annotated[Literal["text", "csv", "json"], Option(help="Output format.")] = "text",
) -> None:
    """Print the six features of the lens in slit-lamp images; intensities and colours are from 0 to 1."""
    from cbir.descriptors.slit_lamp.lens_features import FEATURES, measure_lens
    from cbir.descriptors.slit_lamp.outline_picture import draw_outline
    from cbir.descriptors.slit_lamp.stored_lens_finder import load_lens_finder
    from cbir.images import Limits, read_images
    from cbir.images.scaling import encode_image

    finder, limits = load_lens_finder(model), Limits.from_settings(settings.load())
    if report is not None:
        _make_folder(report)
    features: dict[Path, list[float]] = {}
    refused: list[str] = []
    paths = list(dict.fromkeys(images))
    with StageBars() as bars:
        for number, path in enumerate(paths):
            bars.show("measuring", number, len(paths))
            try:
                image = next(iter(read_images(path, limits=limits)))
                outline = finder.find(image)
            except UnreadableImage as error:
                refused.append(f"{path}: {error}")
                continue
            features[path] = measure_lens(image.pixels, outline).tolist()
            if report is not None:
                picture = encode_image(draw_outline(image.pixels, outline), ".png")
                write_bytes(report / f"{number:04d}-{path.stem}.png", picture)
    if format == "json":
        print_json(
            [{"path": str(path)} | dict(zip(FEATURES, row, strict=True)) for path, row in features.items()]
        )
    elif format == "csv":
        table = csv.writer(sys.stdout, lineterminator="\n")
        table.writerow(("path", *FEATURES))
        table.writerows((harmless_cell(str(path)), *row) for path, row in features.items())
    else:
        for path, row in features.items():
            echo(
                f"{path}: "
                + ", ".join(f"{name} {value:.3f}" for name, value in zip(FEATURES, row, strict=True))
            )
    for line in refused:
        echo(line, err=True)
    if refused:
        raise typer.Exit(SOME_REFUSED)


def _make_folder(folder: Path) -> None:
    try:
        private_folder(folder)
    except OSError as error:
        raise InvalidInput(f"the report cannot be written into {folder}: {error.strerror}") from error
