"""`cbir grade fit`."""

from typing import Annotated

import typer

from cbir.commands.grade.options import (
    Column,
    Folder,
    Format,
    KernelName,
    Kernels,
    Printed,
    SmoothingText,
    Where,
    ranker_options,
    smoothing,
)
from cbir.store import Collection


def fit(
    collection: Folder,
    grade_column: Column = "grade",
    ranker: Annotated[
        str, typer.Option(help="s-ndcg, ranking-svm, adarank, rankboost or severity.")
    ] = "s-ndcg",
    kernel: KernelName = Kernels.auto,
    where: Where = None,
    smooth: SmoothingText = "auto",
    coverage: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Share of grades that the interval is to hold.")
    ] = 0.9,
    seed: Annotated[int, typer.Option(min=0, help="The same seed learns the same.")] = 0,
    format: Printed = Format.text,
) -> None:
    """Learn to order a collection's images by their grades, and keep that with the collection."""
    from cbir import grading
    from cbir.grading import grader

    made = grading.ranker(ranker, seed=seed, **ranker_options(ranker, kernel))
    with Collection(collection) as opened:
        kept = grader.fit(opened, grade_column, made, where or (), smoothing(smooth), coverage)
    if format is Format.json:
        typer.echo(
            kept.model_dump_json(
                include={"column", "ranker", "images", "patients", "error", "coverage", "range"}
            )
        )
        return
    typer.echo(f"{kept.ranker} learnt from {kept.images} images with a grade in {kept.column}")
    typer.echo(f"{kept.coverage:.0%} of grades are within {kept.error:.2f} of the one it gives")
