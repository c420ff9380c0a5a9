"""`cbir annotate agreement`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from cbir.system.console import OutputFormat, Printed, echo, print_json

if TYPE_CHECKING:
    from service.features.annotate.active.annotator_agreement import AnnotatorAgreement


def show_agreement(
    study_dir: Annotated[Path, Option(help="Folder of the study.")], format: Printed = OutputFormat.text
) -> None:
    """Report how well the annotators agree: Krippendorff's alpha of all, Cohen's kappa of each two."""
    from service.features.annotate.active import annotator_agreement, judgement_journal
    from service.features.annotate.study.study_rounds import journal_path

    entries = judgement_journal.read_journal(journal_path(study_dir))
    agreement = annotator_agreement.annotator_agreement(judgement_journal.valid_judgements(entries))
    grades = annotator_agreement.grade_agreement(judgement_journal.valid_grades(entries))
    if format is OutputFormat.json:
        print_json(asdict(agreement) | {"grades": asdict(grades)})
        return
    _print_agreement(agreement, "pairs")
    if grades.people:
        _print_agreement(grades, "images")


def _print_agreement(agreement: "AnnotatorAgreement", subjects: str) -> None:
    echo(f"{agreement.people} people; {agreement.pairs} {subjects} that two or more of them judged")
    if agreement.pairs:
        echo(
            f"Krippendorff's alpha {_decimals(agreement.alpha)} (ordinal), "
            f"{_decimals(agreement.alpha_nominal)} (nominal)"
        )
    for pair in agreement.between:
        echo(
            f"{pair.one} and {pair.other}: Cohen's kappa {_decimals(pair.kappa)} on {pair.pairs} {subjects}, "
            f"{pair.agreed} of them the same"
        )


def _decimals(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.2f}"
