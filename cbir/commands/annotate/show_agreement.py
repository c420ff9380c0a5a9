"""`cbir annotate agreement`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cbir.commands.output import OutputFormat, Printed, print_json


def show_agreement(
    study_dir: Annotated[Path, Option(help="Folder of the study.")], format: Printed = OutputFormat.text
) -> None:
    """Report how well the annotators agree: Krippendorff's alpha of all, Cohen's kappa of each pair."""
    from cbir.active import annotator_agreement, judgement_journal
    from cbir.active.study.study import JOURNAL

    agreement = annotator_agreement.annotator_agreement(
        judgement_journal.valid_judgements(judgement_journal.read_journal(study_dir / JOURNAL))
    )
    if format is OutputFormat.json:
        print_json(asdict(agreement))
        return
    typer.echo(f"{agreement.people} people; {agreement.pairs} pairs that two or more of them judged")
    if agreement.pairs:
        typer.echo(
            f"Krippendorff's alpha {_decimals(agreement.alpha)} (ordinal), "
            f"{_decimals(agreement.alpha_nominal)} (nominal)"
        )
    for pair in agreement.between:
        typer.echo(
            f"{pair.one} and {pair.other}: Cohen's kappa {_decimals(pair.kappa)} on {pair.pairs} pairs"
        )


def _decimals(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.2f}"
