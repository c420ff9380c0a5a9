"""`cbir grade fit`."""

from typing import Annotated, Any

import typer
from typer import Option

from cbir.commands import options
from cbir.commands.grade.grade_options import (
    CnnEncoder,
    Column,
    Epochs,
    FineTune,
    Kernel,
    Mirror,
    Networks,
    PictureWindow,
    Side,
    SmoothingText,
    network_options,
    ranker_options,
    smoothing,
)
from cbir.commands.output import OutputFormat, Printed, StageBars
from cbir.store import Collection


def fit_collection_grader(
    collection: options.Folder,
    grade_column: Column = "grade",
    ranker: Annotated[
        str, Option(help="s-ndcg, ranking-svm, adarank, rankboost, severity or cnn.")
    ] = "s-ndcg",
    kernel: Kernel = "auto",
    encoder: CnnEncoder = "lite0-max",
    fine_tune: FineTune = 5,
    epochs: Epochs = 5,
    mirror: Mirror = False,
    window: PictureWindow = "auto",
    networks: Networks = 1,
    side: Side = 320,
    where: options.Where = None,
    smooth: SmoothingText = "thresholds",
    coverage: Annotated[float, Option(min=0.01, max=0.99, help="Share of grades in the interval.")] = 0.9,
    seed: Annotated[int, Option(min=0, help="Random seed of training.")] = 0,
    format: Printed = OutputFormat.text,
) -> None:
    """Fit a ranker to the grades of a collection's images, and store it in the collection."""
    from cbir import grading
    from cbir.grading import grader

    chosen: dict[str, Any] = dict(ranker_options(ranker, kernel))
    if ranker == grading.CnnRanker.name:
        chosen = network_options(encoder, fine_tune, epochs, mirror, window, networks)
    estimator = grading.make_ranker(ranker, seed=seed, **chosen)
    with StageBars() as bars, Collection(collection) as opened:
        model = grader.fit_grader(
            opened, grade_column, estimator, where or (), smoothing(smooth), coverage, side, bars.show
        )
    if format is OutputFormat.json:
        typer.echo(
            model.model_dump_json(
                include={"column", "ranker", "images", "patients", "error", "coverage", "range"}
            )
        )
        return
    typer.echo(f"{model.ranker} fitted to {model.images} images with a grade in {model.column}")
    typer.echo(f"{model.coverage:.0%} of grades are within {model.error:.2f} of the predicted one")
