"""`cbir grade fit`."""

from typing import Annotated

import typer
from typer import Option

from cbir.learn.commands import grade_options
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
