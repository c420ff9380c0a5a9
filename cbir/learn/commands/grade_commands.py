"""`cbir grade ...`: fit a grader to a collection's grades, and grade new images."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer
from numpy.typing import NDArray
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput, UnreadableImage
from cbir.learn import option_groups
from cbir.learn.commands.evaluate_graders import evaluate_graders
from cbir.learn.option_groups import Column
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_json
from cbir.system.files import csv_text, os_errors, private_folder, write_bytes

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
    from cbir.descriptors.lens_files import read_outlines
    from cbir.descriptors.slit_lamp import fit_lens_finder, write_lens_finder
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

    from cbir.descriptors.shape_model import scale_outlined
    from cbir.descriptors.slit_lamp import to_grey
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


SOME_REFUSED = 3  # exit code, as of cbir index


def measure_slit_lamp(
    images: Annotated[list[Path], Argument(metavar="IMAGE", help="Slit-lamp images.")],
    model: Annotated[Path, Option(help="Folder of a model that `cbir grade slit-lamp fit` wrote.")],
    report: Annotated[
        Path | None, Option(help="Folder for a picture of each image with the outline that was found.")
    ] = None,
    format: Annotated[Literal["text", "csv", "json"], Option(help="Output format.")] = "text",
) -> None:
    """Print the six features of the lens in slit-lamp images; intensities and colours are from 0 to 1."""
    from cbir.descriptors.slit_lamp import FEATURES, draw_outline, load_lens_finder, measure_lens
    from cbir.images import Limits, read_images
    from cbir.images.scaling import encode_image

    finder, limits = load_lens_finder(model), Limits.from_settings(settings.load())
    if report is not None:
        with os_errors(f"the report cannot be written into {report}"):
            private_folder(report)
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
        rows = ((str(path), *row) for path, row in features.items())
        sys.stdout.write(csv_text([("path", *FEATURES), *rows]))
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


slit_lamp = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Measure the lens in slit-lamp images."
)

slit_lamp.command("fit")(fit_slit_lamp)

slit_lamp.command("features")(measure_slit_lamp)


@option_groups.with_choices(option_groups.RankerChoices, "classifier")
def fit_collection_grader(
    *,
    collection: options.Folder,
    grade_column: option_groups.Column = "grade",
    ranker: Annotated[
        str, Option(help="s-ndcg, ranking-svm, adarank, rankboost, severity or cnn.")
    ] = "s-ndcg",
    choices: option_groups.RankerChoices,
    where: options.Where = None,
    smooth: option_groups.SmoothingText = None,
    coverage: Annotated[float, Option(min=0.01, max=0.99, help="Share of grades in the interval.")] = 0.9,
    seed: Annotated[int, Option(min=0, help="Random seed of training.")] = 0,
    format: Printed = OutputFormat.text,
) -> None:
    """Fit a ranker to the grades of a collection's images, and store it in the collection."""
    from cbir.learn import grading
    from cbir.learn.grading import grader
    from cbir.learn.grading.ranker_options import RankerOptions
    from cbir.store import Collection

    ranker_options = RankerOptions(**vars(choices))
    smoothed = ranker_options.smoothing(smooth, [ranker])
    estimator = grading.make_ranker(ranker, seed=seed, **ranker_options.build_all([ranker])[ranker])
    with StageBars() as bars, Collection(collection) as opened:
        options.check_label(opened, grade_column)
        bars.show("fitting")
        model = grader.fit_grader(
            opened,
            grade_column,
            estimator,
            where or (),
            smoothed,
            coverage,
            ranker_options.picture_side(),
            bars.show,
        )
    if format is OutputFormat.json:
        typer.echo(
            model.model_dump_json(
                include={"column", "ranker", "images", "patients", "error", "coverage", "range"}
            )
        )
        return
    echo(f"{model.ranker} fitted to {model.images} images with a grade in {model.column}")
    echo(f"{model.coverage:.0%} of grades are within {model.error:.2f} of the predicted one")


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


app = typer.Typer(no_args_is_help=True, add_completion=False, help="Grade new images by graded ones.")

app.command("fit")(fit_collection_grader)

app.command("predict")(predict_grade)

app.command("evaluate")(evaluate_graders)

app.add_typer(slit_lamp, name="slit-lamp")
