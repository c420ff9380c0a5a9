"""`cbir evaluate irma-error`."""

import csv
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cbir.commands.output import OutputFormat, Printed, print_json
from cbir.errors import InvalidInput
from cbir.evaluation.irma.code_error import ErrorRule


class CodeYear(StrEnum):
    """Years of the codes in a CSV file of 2009."""

    of_2007 = "2007"
    of_2008 = "2008"


def score_irma_codes(
    tree: Annotated[Path, typer.Option(help="IRMA code tree.")],
    truth: Annotated[
        Path,
        typer.Option(help="True codes: CSV file of 2009, CSV file image_id,code, or lines `<id> <code>`."),
    ],
    run: Annotated[Path, typer.Option(help="Answers: lines `<id> <code>`, with `*` for unknown.")],
    rule: Annotated[
        ErrorRule, typer.Option(help="Scoring rule; 2009 is also that of 2008.")
    ] = ErrorRule.of_2009,
    train: Annotated[
        Path | None, typer.Option(help="True codes of the training images, for the majority baseline.")
    ] = None,
    labelling: Annotated[
        CodeYear, typer.Option(help="Year of the true codes in a CSV file of 2009.")
    ] = CodeYear.of_2008,
    per_image: Annotated[Path | None, typer.Option(help="Write image_id,error to this CSV file.")] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Score a run by the hierarchical error of ImageCLEF, with baselines. Lower is better."""
    from cbir.datasets.irma import CodeTree
    from cbir.evaluation.irma.code_files import read_answered_codes, read_true_codes
    from cbir.evaluation.irma.error_report import compare_codes, report_lines

    truths = read_true_codes(truth, labelling)
    training = read_true_codes(train, labelling, "train").by_image if train else {}
    answers = read_answered_codes(run).by_image
    result = compare_codes(truths.by_image, answers, CodeTree.read(tree), rule, list(training.values()))
    if per_image:
        written = truths.written
        _write(per_image, {written.get(name, name): error for name, error in result.by_image.items()})
    facts = result.facts() | {"without_true_code": truths.left_out}
    if format is OutputFormat.json:
        print_json(facts)
        return
    typer.echo("\n".join(report_lines(facts)))
    if truths.left_out:
        typer.echo(f"{truths.left_out} images of the truth have no code in this labelling and were left out")
    for name in result.unknown[:5]:
        typer.echo(f"  not in the truth: {name}", err=True)


def _write(path: Path, by_image: dict[str, float]) -> None:
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["image_id", "error"])
            table.writerows((name, repr(error)) for name, error in by_image.items())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
