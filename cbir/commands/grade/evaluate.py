"""`cbir grade evaluate`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    list_size,
    ranker_options,
    smoothing,
)
from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.filters import parse

if TYPE_CHECKING:
    from cbir.grading.cases import Cases
    from cbir.grading.evaluation import Evaluation, Split


def evaluate(
    collection: Folder,
    grade_column: Column = "grade",
    ranker: Annotated[
        list[str] | None,
        typer.Option(
            help="s-ndcg, ranking-svm, adarank, rankboost, severity, cnn, regression, classification, ordinal; "
            "several are compared."
        ),
    ] = None,
    kernel: KernelName = Kernels.auto,
    folds: Annotated[int, typer.Option(min=2, max=100, help="Parts of the patients, each graded once.")] = 5,
    held_out: Annotated[
        str | None,
        typer.Option(
            help="In place of folds: grade the images with this label, e.g. split=test, by the others."
        ),
    ] = None,
    where: Where = None,
    lists: Annotated[
        str, typer.Option("--list-size", help="Images of the lists that NDCG is measured on; or all.")
    ] = "20",
    smooth: SmoothingText = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Of folds and lists.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Folder for figures and a table.")] = None,
    format: Printed = Format.text,
) -> None:
    """Grade images that a method has not seen, and compare with their own grades."""
    import numpy as np

    from cbir import grading
    from cbir.grading import evaluation as measuring
    from cbir.grading.cases import graded_cases, need_grades
    from cbir.grading.seen import features_of_cases

    names = list(dict.fromkeys(ranker or ["s-ndcg"]))
    if report is not None and report.exists() and not report.is_dir():
        raise InvalidInput(f"{report} is a file; the figures need a folder")
    size, smoothed = list_size(lists), smoothing(smooth)
    for name in names:
        measuring.check_name(name)
    with Collection(collection) as opened:
        cases = graded_cases(opened, grade_column, [parse(text) for text in where or ()])
        need_grades(cases, grade_column)
        aside = None
        if held_out is not None:
            conditions = [parse(text) for text in [*(where or ()), held_out]]
            aside = graded_cases(opened, grade_column, conditions)
        seen = {name: features_of_cases(opened, name, cases).astype(np.float64) for name in names}
    patients = np.unique(cases.patients, return_inverse=True)[1]
    splits = (
        measuring.splits_by_patient(cases.grades, patients, folds, seed)
        if aside is None
        else _split(cases, aside)
    )
    found = [
        measuring.evaluate(
            name,
            seen[name],
            cases.grades,
            splits,
            patients,
            size,
            smoothed,
            seed,
            ranker_options(name, kernel) if name in grading.every_name() else {},
        )
        for name in names
    ]
    if report is not None:
        from cbir.grading.report import write

        write(found, report)
    if format is Format.text:
        _print(found)
    elif len(found) == 1:
        typer.echo(_json(found[0].overall))
    else:
        typer.echo(_json({one.name: one.overall for one in found}))


def _json(values: object) -> str:
    """Strict JSON: where a measure is not defined, null."""
    return json.dumps(json.loads(json.dumps(values), parse_constant=lambda _: None))


def _split(cases: "Cases", aside: "Cases") -> "list[Split]":
    """One split; raises InvalidInput where a patient is on both sides, or one side is empty."""
    import numpy as np

    held = np.isin(cases.image_ids, aside.image_ids)
    if held.all() or not held.any():
        raise InvalidInput(
            f"--held-out takes {held.sum()} of {len(held)} graded images; both sides need some"
        )
    both = np.intersect1d(cases.patients[held], cases.patients[~held])
    if len(both):
        raise InvalidInput(f"--held-out parts the images of {len(both)} patients; keep a patient's together")
    return [(np.flatnonzero(~held), np.flatnonzero(held))]


def _print(found: "Sequence[Evaluation]") -> None:
    from rich.console import Console
    from rich.table import Table

    from cbir.grading.evaluation import compare

    table = Table("method", *found[0].overall, box=None)
    for one in found:
        table.add_row(one.name, *(f"{value:.4f}" for value in one.overall.values()))
    console = Console(width=None if Console().is_terminal else 200)
    console.print(table)
    console.print(f"{len(found[0].tested)} images, {len(found[0].lists)} lists", highlight=False)
    if len(found) < 2:
        return
    p, compared = compare(found)
    console.print(f"one-way analysis of variance of NDCG: p = {p:.3g}", highlight=False)
    for pair in compared:
        console.print(
            f"{pair.one} - {pair.other}: {pair.difference:+.4f} [{pair.low:+.4f}, {pair.high:+.4f}], "
            f"p = {pair.p:.3g}",
            highlight=False,
        )
