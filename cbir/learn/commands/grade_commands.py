"""`cbir grade ...`: fit a grader to a collection's grades, and grade new images."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput
from cbir.learn.commands import grade_options
from cbir.learn.commands.evaluate_graders import evaluate_graders
from cbir.learn.commands.grade_options import Column
from cbir.learn.commands.slit_lamp_commands import app as slit_lamp
from cbir.search import command_options as options
from cbir.system.console import OutputFormat, Printed, StageBars, echo


def fit_collection_grader(
    collection: options.Folder,
    grade_column: grade_options.Column = "grade",
    ranker: Annotated[
        str, Option(help="s-ndcg, ranking-svm, adarank, rankboost, severity or cnn.")
    ] = "s-ndcg",
    kernel: grade_options.Kernel = None,
    form: grade_options.Form = None,
    function: grade_options.Function = None,
    alpha: grade_options.Alpha = None,
    start: grade_options.Start = None,
    steps: grade_options.Steps = None,
    rate: grade_options.Rate = None,
    c: grade_options.C = None,
    loss: grade_options.Loss = None,
    training_list_size: grade_options.TrainingListSize = None,
    encoder: grade_options.CnnEncoder = None,
    fine_tune: grade_options.FineTune = None,
    epochs: grade_options.Epochs = None,
    mirror: grade_options.Mirror = False,
    window: grade_options.PictureWindow = None,
    networks: grade_options.Networks = None,
    side: grade_options.Side = None,
    where: options.Where = None,
    smooth: grade_options.SmoothingText = None,
    coverage: Annotated[float, Option(min=0.01, max=0.99, help="Share of grades in the interval.")] = 0.9,
    seed: Annotated[int, Option(min=0, help="Random seed of training.")] = 0,
    format: Printed = OutputFormat.text,
) -> None:
    """Fit a ranker to the grades of a collection's images, and store it in the collection."""
    from cbir.learn import grading
    from cbir.learn.grading import grader
    from cbir.learn.grading.ranker_options import RankerOptions
    from cbir.store import Collection

    ranker_options = RankerOptions(
        kernel=kernel,
        form=form,
        function=function,
        alpha=alpha,
        start=start,
        steps=steps,
        rate=rate,
        c=c,
        loss=loss,
        training_list_size=training_list_size,
        encoder=encoder,
        fine_tune=fine_tune,
        epochs=epochs,
        mirror=mirror,
        window=window,
        networks=networks,
        side=side,
    )
    smoothed = grade_options.smoothing(smooth, [ranker], ranker_options)
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
