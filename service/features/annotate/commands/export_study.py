"""`cbir annotate export`."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Option

from cbir.errors import InvalidInput
from cbir.search.command_options import FOLDER_OR_ADDRESS
from cbir.store.collection_address import collection_folder
from cbir.system.console import echo


def export_study(
    study_dir: Annotated[Path, Option(help="Folder of the study.")],
    what: Annotated[
        Literal["judgements", "images"],
        Option(help="All judgements and grades, or score and grade of each image."),
    ] = "judgements",
    format: Annotated[Literal["csv", "json"], Option(help="Format of the file.")] = "csv",
    out: Annotated[Path | None, Option(help="File to write. [standard output]")] = None,
    collection: Annotated[
        Path | None,
        Option(
            parser=collection_folder,
            metavar=FOLDER_OR_ADDRESS,
            help="Collection of the study, for --write-label.",
        ),
    ] = None,
    write_label: Annotated[
        str | None,
        Option(help="Also write the grade of each image to the collection, as the label of this name."),
    ] = None,
    label_source: Annotated[
        Literal["given", "predicted"],
        Option(help="Grades to write: those that people gave, or those predicted from the severity."),
    ] = "given",
) -> None:
    """Write the judgements of a study, or the results of its images, to a csv or JSON file."""
    from cbir.store import Collection
    from cbir.system.files import write_bytes
    from service.features.annotate.active.judgement_journal import read_journal, valid_grades
    from service.features.annotate.study import (
        grade_labels,
        study_export,
        study_models,
        study_plan,
        study_results,
    )
    from service.features.annotate.study.study_rounds import journal_path

    if write_label is not None and collection is None:
        raise InvalidInput("--write-label needs --collection, the collection of the study")
    plan, entries = study_plan.read_plan(study_dir), read_journal(journal_path(study_dir))
    model, answers = study_models.latest_model(study_dir), valid_grades(entries)
    ids = dict.fromkeys((*(model.ids if model else ()), *(answer.image for answer in answers)))
    results = study_results.study_results(list(ids), plan, model, answers)
    if write_label is not None and collection is not None:
        with Collection(collection) as opened:
            images, changed = grade_labels.write_grades(opened, write_label, results, label_source)
        echo(f"{write_label} of {images} images; {changed} changed", err=True)
    columns: tuple[str, ...] = study_export.ANSWER_COLUMNS
    rows = study_export.answer_rows(entries, plan)
    if what == "images":
        columns, rows = study_export.RESULT_COLUMNS, study_export.result_rows(results, plan)
    if format == "csv":
        text = study_export.csv_text(columns, rows)
    else:
        text = json.dumps(study_export.study_facts(plan) | {what: rows}, indent=1, allow_nan=False) + "\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        write_bytes(out, text.encode())
    except OSError as error:
        raise InvalidInput(f"{out} cannot be written: {error.strerror}") from error
    echo(f"{len(rows)} rows in {out}", err=True)
