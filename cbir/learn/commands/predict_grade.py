"""`cbir grade predict`."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.learn.commands.grade_options import Column
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, echo


def predict_grade(
    image: Annotated[str, Argument(help="Image file, or id:IMAGE_ID of an image of the collection.")],
    collection: options.Folder,
    grade_column: Column = "grade",
    frame: options.Frame = None,
    exclude_patient: Annotated[str | None, Option(help="Leave out the images of this patient.")] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Predict the grade of an image, with an interval and its two neighbours among the graded images."""
    from cbir.images import Limits, read_images
    from cbir.learn.grading.grader import Grader
    from cbir.search import select_frame
    from cbir.store import Collection

    loaded = settings.load()
    with Collection(collection) as opened:
        grader = Grader(opened, grade_column)
        if image.startswith("id:"):
            if frame is not None or exclude_patient is not None:
                raise InvalidInput("--frame and --exclude-patient are for files")
            grade = grader.by_id(image.removeprefix("id:"))
        else:
            frames = read_images(Path(image), limits=Limits.from_settings(loaded))
            key = opened.patient_key_of(exclude_patient or "")
            grade = grader.by_image(select_frame(frames, frame, image), key)
    if format is OutputFormat.json:
        typer.echo(grade.model_dump_json())
        return
    echo(
        f"{grade.grade_column} {grade.grade:.2f}, from {grade.low:.2f} to {grade.high:.2f} ({grade.coverage:.0%})"
    )
    for name, neighbour in (("lighter", grade.lighter), ("severer", grade.severer)):
        echo(f"{name}: {f'{neighbour.image_id}, grade {neighbour.grade:g}' if neighbour else 'none'}")
    echo(f"{grade.ranker} over {grade.graded} graded images")
