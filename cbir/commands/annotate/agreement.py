"""`cbir annotate agreement`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cbir.commands.grade.options import Format, Printed


def agreement(
    study_dir: Annotated[Path, typer.Option(help="Folder of the study.")],
    format: Printed = Format.text,
) -> None:
    """How far the people who judged agree: Krippendorff's alpha of all, Cohen's kappa of each two."""
    import json

    from cbir.active import annotator_agreement, judgement_journal
    from cbir.active.study.study import JOURNAL

    found = annotator_agreement.annotator_agreement(
        judgement_journal.valid_judgements(judgement_journal.read_journal(study_dir / JOURNAL))
    )
    if format is Format.json:
        typer.echo(json.dumps(asdict(found)))
        return
    typer.echo(f"{found.people} people; {found.pairs} pairs that two or more of them judged")
    if found.pairs:
        typer.echo(
            f"Krippendorff's alpha {_said(found.alpha)} (ordinal), {_said(found.alpha_nominal)} (nominal)"
        )
    for one in found.between:
        typer.echo(f"{one.one} and {one.other}: Cohen's kappa {_said(one.kappa)} on {one.pairs} pairs")


def _said(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.2f}"
