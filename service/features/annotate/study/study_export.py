"""Judgements and results of a study as tables, for csv and JSON."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cbir.system.csv_cells import harmless_cell
from service.features.annotate.active.judgement_journal import (
    Entry,
    ImageGrade,
    Undo,
    valid_grades,
    valid_judgements,
)
from service.features.annotate.study.study_plan import StudyPlan
from service.features.annotate.study.study_results import ImageResult

ANSWER_COLUMNS = (
    "kind", "state", "who", "at", "seconds", "round", "first", "second", "answer", "image", "grade", "grade_name",
    "name",
)  # fmt: skip
RESULT_COLUMNS = ("image_id", "score", "deviation", "grade", "grade_name", "given_grade", "graders")


def answer_rows(entries: Iterable[Entry], plan: StudyPlan) -> list[dict[str, Any]]:
    """Return all answers in the order of the journal, also withdrawn ones, with the columns `ANSWER_COLUMNS`.

    Their `state` is "current", "replaced" by a later answer of the same person, or "withdrawn". The `grade` of an
    image that a person could not judge is None.
    """
    entries = list(entries)
    undone = {entry.undoes for entry in entries if isinstance(entry, Undo)}
    current = {entry.name for entry in valid_judgements(entries)}
    current |= {entry.name for entry in valid_grades(entries)}
    rows = []
    for entry in entries:
        if isinstance(entry, Undo):
            continue
        state = "withdrawn" if entry.name in undone else "current" if entry.name in current else "replaced"
        values = entry.model_dump(mode="json") | {"state": state}
        if isinstance(entry, ImageGrade):
            values["grade_name"] = _grade_name(plan, entry.grade)
        rows.append({column: values.get(column) for column in ANSWER_COLUMNS})
    return rows


def result_rows(results: Iterable[ImageResult], plan: StudyPlan) -> list[dict[str, Any]]:
    """Return `results` with the columns `RESULT_COLUMNS`."""
    return [
        {
            "image_id": result.image_id,
            "score": result.score,
            "deviation": result.deviation,
            "grade": result.grade,
            "grade_name": _grade_name(plan, result.grade),
            "given_grade": result.human_grade,
            "graders": result.graders,
        }
        for result in results
    ]


def _grade_name(plan: StudyPlan, grade: float | None) -> str | None:
    return plan.name_of(grade) if plan.grade_names and grade in plan.grades and grade is not None else None


def study_facts(plan: StudyPlan) -> dict[str, Any]:
    """Return what a JSON file says about the study: its question, its grades and the images that it holds for."""
    grades = [{"grade": grade, "name": plan.name_of(grade)} for grade in plan.grades]
    return {"study": plan.study, "question": plan.question, "where": list(plan.where), "grades": grades}


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return `rows` as csv; a text that a spreadsheet would take for a formula gets an apostrophe in front."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({column: harmless_cell(value) for column, value in row.items()})
    return text.getvalue()
