"""`cbir grade predict`."""

from pathlib import Path
from typing import Annotated

import typer

from cbir import settings
from cbir.commands.grade.options import Column, Folder, Format, Printed
from cbir.errors import InvalidInput
from cbir.images import Limits, read_images
from cbir.search import query_frame
from cbir.store import Collection


def predict(
    image: Annotated[str, typer.Argument(help="An image file, or id:IMAGE_ID of the collection's.")],
    collection: Folder,
    grade_column: Column = "grade",
    frame: Annotated[int | None, typer.Option(help="Frame of a multi-frame file, from 1.")] = None,
    exclude_patient: Annotated[str | None, typer.Option(help="Leave this patient's images out.")] = None,
    format: Printed = Format.text,
) -> None:
    """Place an image among the graded ones: its grade, an interval, and its two neighbours."""
    from cbir.grading.grader import Grader

    in_force = settings.load()
    with Collection(collection) as opened:
        grader = Grader(opened, grade_column)
        if image.startswith("id:"):
            if frame is not None or exclude_patient is not None:
                raise InvalidInput("--frame and --exclude-patient are for files")
            found = grader.by_id(image.removeprefix("id:"))
        else:
            frames = read_images(Path(image), limits=Limits(pixels=in_force.max_pixels))
            found = grader.by_image(query_frame(frames, frame, image), exclude_patient)
    if format is Format.json:
        typer.echo(found.model_dump_json())
        return
    typer.echo(
        f"{found.grade_column} {found.grade:.2f}, from {found.low:.2f} to {found.high:.2f} ({found.coverage:.0%})"
    )
    for name, neighbour in (("lighter", found.lighter), ("severer", found.severer)):
        typer.echo(f"{name}: {f'{neighbour.image_id}, grade {neighbour.grade:g}' if neighbour else 'none'}")
    typer.echo(f"{found.ranker} over {found.graded} graded images")
