"""`cbir evaluate irma-error`."""

import csv
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from cbir.errors import InvalidInput
from cbir.evaluation.irma.code_error import ErrorRule
from cbir.system.atomic import atomic_text
from cbir.system.console.output import OutputFormat, Printed, print_json
from cbir.system.console.printable import echo
from cbir.system.csv_cells import harmless_cell


def score_irma_codes(
    tree: Annotated[Path, Option(help="IRMA code tree.")],
    truth: Annotated[
        Path, Option(help="True codes: CSV file of 2009, CSV file image_id,code, or lines `<id> <code>`.")
    ],
    run: Annotated[Path, Option(help="Answers: lines `<id> <code>`, with `*` for unknown.")],
    rule: Annotated[ErrorRule, Option(help="Scoring rule; 2009 is also that of 2008.")] = ErrorRule.of_2009,
    train: Annotated[Path | None, Option(help="True codes to take the majority baseline from.")] = None,
    labelling: Annotated[
        Literal["2007", "2008"], Option(help="Year of the true codes in a CSV file of 2009.")
    ] = "2008",
    per_image: Annotated[Path | None, Option(help="Write image_id,error to this CSV file.")] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Score a run by the hierarchical error of ImageCLEF, with baselines. Lower is better."""
    from cbir.evaluation.datasets.irma.code_tree import CodeTree
    from cbir.evaluation.irma.code_files import read_answered_codes, read_true_codes
    from cbir.evaluation.irma.error_report import compare_codes, report_lines

    truths = read_true_codes(truth, labelling)
    training = read_true_codes(train, labelling, "train").by_image if train else {}
    answers = read_answered_codes(run).by_image
    result = compare_codes(truths.by_image, answers, CodeTree.read(tree), rule, list(training.values()))
    if per_image:
        try:
            with atomic_text(per_image) as file:
                rows = [
                    (harmless_cell(truths.written.get(name, name)), repr(error))
                    for name, error in result.by_image.items()
                ]
                csv.writer(file).writerows([("image_id", "error"), *rows])
        except OSError as error:
            raise InvalidInput(f"{per_image} cannot be written: {error.strerror}") from error
    facts = result.facts() | {"without_true_code": truths.left_out}
    if format is OutputFormat.json:
        print_json(facts)
        return
    echo("\n".join(report_lines(facts)))
    if truths.left_out:
        echo(f"{truths.left_out} images of the truth have no code in this labelling and were left out")
    for name in result.unknown[:5]:
        echo(f"  not in the truth: {name}", err=True)
