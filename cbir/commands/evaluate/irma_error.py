"""`cbir evaluate irma-error`."""

import csv
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cbir.errors import InvalidInput
from cbir.evaluation.irma.code_error import Rule


class Format(StrEnum):
    """How the result is printed."""

    text = "text"
    json = "json"


class Labelling(StrEnum):
    """Year of the codes in a csv of 2009."""

    of_2007 = "2007"
    of_2008 = "2008"


def irma_error(
    tree: Annotated[Path, typer.Option(help="The IRMA code tree.")],
    truth: Annotated[
        Path, typer.Option(help="True codes: csv of 2009, csv image_id,code or `<id> <code>` lines.")
    ],
    run: Annotated[Path, typer.Option(help="Answers, `<id> <code>` a line, `*` for don't know.")],
    rule: Annotated[Rule, typer.Option(help="2009 is also the rule of 2008.")] = Rule.of_2009,
    train: Annotated[
        Path | None, typer.Option(help="True codes of the training images, for the majority class.")
    ] = None,
    labelling: Annotated[
        Labelling, typer.Option(help="Which codes of a csv of 2009 are the true ones.")
    ] = Labelling.of_2008,
    per_image: Annotated[Path | None, typer.Option(help="Write image_id,error to this csv.")] = None,
    format: Annotated[Format, typer.Option(help="How the result is printed.")] = Format.text,
) -> None:
    """Score a run by the hierarchical error of ImageCLEF, beside the trivial answers. Lower is better."""
    from cbir.datasets.irma import CodeTree
    from cbir.evaluation.irma.code_files import read_run, read_truth
    from cbir.evaluation.irma.error_report import lines, report

    true = read_truth(truth, labelling)
    training = read_truth(train, labelling, "train").by_image if train else {}
    answers = read_run(run).by_image
    result = report(true.by_image, answers, CodeTree.read(tree), rule, list(training.values()))
    if per_image:
        written = true.written
        _write(per_image, {written.get(name, name): error for name, error in result.by_image.items()})
    facts = result.facts() | {"without_true_code": true.left_out}
    if format is Format.json:
        typer.echo(json.dumps(facts))
        return
    typer.echo("\n".join(lines(facts)))
    if true.left_out:
        typer.echo(f"{true.left_out} images of the truth have no code in this labelling and were left out")
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
