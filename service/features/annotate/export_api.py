"""Judgements and results of a study as files."""

import json

from flask import Blueprint, Response

from service.features.annotate.annotation_state import current_annotation
from service.features.annotate.study import study_export
from service.features.annotate.study.study_results import study_results
from service.http.operations import operation

blueprint = Blueprint("annotate_export", __name__)

LINES = 'httpx.get(f"{server}/annotate/export/%s", headers=headers).text'


@blueprint.get("/annotate/export/judgements.csv")
@operation("export_judgements_csv", {200: "text/csv"}, python=LINES % "judgements.csv")
def get_judgements_csv() -> Response:
    """Return all answers as csv, also replaced and withdrawn ones, with their state."""
    study = current_annotation().study
    rows = study_export.answer_rows(study.journal.entries, study.plan)
    return _file(study_export.csv_text(study_export.ANSWER_COLUMNS, rows), "text/csv", "judgements.csv")


@blueprint.get("/annotate/export/judgements.json")
@operation("export_judgements_json", {200: "application/json"}, python=LINES % "judgements.json")
def get_judgements_json() -> Response:
    """Return all answers as JSON, with the question, the grades and the conditions of the study."""
    study = current_annotation().study
    facts = study_export.study_facts(study.plan)
    facts["judgements"] = study_export.answer_rows(study.journal.entries, study.plan)
    return _file(json.dumps(facts, indent=1), "application/json", "judgements.json")


@blueprint.get("/annotate/export/images.csv")
@operation("export_images", {200: "text/csv"}, python=LINES % "images.csv")
def get_images_csv() -> Response:
    """Return score, uncertainty and grade of each image of the study as csv.

    `score` is the severity and `deviation` its standard deviation; both are empty before the first training. `grade`
    is predicted from the score, `given_grade` is the median of the grades that people gave.
    """
    study = current_annotation().study
    results = study_results(study.ids, study.plan, study.model, study.image_answers)
    text = study_export.csv_text(study_export.RESULT_COLUMNS, study_export.result_rows(results, study.plan))
    return _file(text, "text/csv", "images.csv")


def _file(text: str, media: str, name: str) -> Response:
    response = Response(text, mimetype=media)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
