"""Review of a study: answers with their history, agreement, files of results, and severity as a label."""

import json
from collections import Counter
from dataclasses import asdict

from flask import Blueprint, Response

from cbir.learn.severity.stored_ranker import LABEL, write_severity
from cbir.store.base.stored_models import read_ranker_conditions
from service.access.audit import log_images
from service.access.caller import actor_name
from service.collections.app_state import current_state
from service.features.annotate import study_files
from service.features.annotate.active.annotator_agreement import annotator_agreement, grade_agreement
from service.features.annotate.active.judgement_journal import ImageGrade, PairAnswer
from service.features.annotate.annotation_state import current_annotation
from service.features.annotate.answer_review import (
    Answer,
    ReviewedAnswer,
    decision_of,
    filter_answers,
    review_answers,
)
from service.features.annotate.judging_api import logged_in_annotator
from service.features.annotate.messages import (
    AnswerInReview,
    AnswersInReview,
    DecisionCount,
    EarlierAnswer,
    ReviewParameters,
    StudyAgreement,
    WrittenSeverity,
)
from service.features.annotate.study_results import (
    ANSWER_COLUMNS,
    RESULT_COLUMNS,
    answer_rows,
    csv_text,
    result_rows,
    study_facts,
    study_results,
)
from service.http import request_params
from service.http.operations import json_response, operation
from service.http.problems import Conflict

blueprint = Blueprint("annotate_review", __name__)
MIRRORED = {PairAnswer.first.value: PairAnswer.second.value, PairAnswer.second.value: PairAnswer.first.value}
FILE_LINES = 'httpx.get(f"{server}/annotate/export/%s", headers=headers).text'


@blueprint.get("/annotate/judgements")
@operation(
    "review",
    {200: AnswersInReview},
    query=ReviewParameters,
    problems=(422,),
    python='httpx.get(f"{server}/annotate/judgements", params={"disagreement": "people"}, headers=headers).json()',
)
def get_judgements() -> Response:
    """Return valid answers of all annotators, the newest first.

    To change an answer, send another one about the same; to withdraw it, undo it and its `earlier` ones. The journal
    keeps them all; the training uses the last.
    """
    params = request_params.query_parameters(ReviewParameters)
    study = current_annotation().study
    reviewed = review_answers(study.journal.entries, study.plan, study.model)
    selected = filter_answers(reviewed, params.judged_by, params.decision, params.disagreement)
    page = [_message(each) for each in selected[params.offset : params.offset + params.limit]]
    log_images(image for each in page for image in (each.first, each.second, each.image) if image)
    decisions = Counter(each.decision for each in reviewed)
    return json_response(
        AnswersInReview(
            who=logged_in_annotator(),
            total=len(selected),
            answers=page,
            people=sorted({each.answer.who for each in reviewed}),
            decisions=[
                DecisionCount(decision=key, answers=count) for key, count in sorted(decisions.items())
            ],
        )
    )


@blueprint.get("/annotate/agreement")
@operation(
    "agreement",
    {200: StudyAgreement},
    python='httpx.get(f"{server}/annotate/agreement", headers=headers).json()',
)
def get_agreement() -> Response:
    """Return the agreement of the annotators on what several of them judged: of all, and of each two."""
    study = current_annotation().study
    return json_response(
        StudyAgreement.model_validate(
            {
                "judgements": asdict(annotator_agreement(study.judgements)),
                "grades": asdict(grade_agreement(study.image_answers)),
            }
        )
    )


def _message(reviewed: ReviewedAnswer) -> AnswerInReview:
    answer = reviewed.answer
    is_grade = isinstance(answer, ImageGrade)
    return AnswerInReview(
        name=answer.name,
        kind="grade" if is_grade else "pair",
        who=answer.who,
        at=answer.at.isoformat(),
        seconds=answer.seconds,
        first=None if isinstance(answer, ImageGrade) else answer.first,
        second=None if isinstance(answer, ImageGrade) else answer.second,
        image=answer.image if isinstance(answer, ImageGrade) else None,
        decision=reviewed.decision,
        contradicts_model=reviewed.contradicts_model,
        contradicts_people=reviewed.contradicts_people,
        earlier=[_earlier(each, answer) for each in reviewed.earlier],
        others=[_earlier(each, answer) for each in reviewed.others],
    )


def _earlier(each: Answer, reviewed: Answer) -> EarlierAnswer:
    decision = decision_of(each)
    if (
        not isinstance(each, ImageGrade)
        and not isinstance(reviewed, ImageGrade)
        and each.first != reviewed.first
    ):
        decision = MIRRORED.get(decision, decision)
    return EarlierAnswer(name=each.name, who=each.who, at=each.at.isoformat(), decision=decision)


@blueprint.get("/annotate/export/judgements.csv")
@operation("export_judgements_csv", {200: "text/csv"}, python=FILE_LINES % "judgements.csv")
def get_judgements_csv() -> Response:
    """Return all answers as csv, also replaced and withdrawn ones, with their state."""
    study = current_annotation().study
    rows = answer_rows(study.journal.entries, study.plan)
    return _file(csv_text(ANSWER_COLUMNS, rows), "text/csv", "judgements.csv")


@blueprint.get("/annotate/export/judgements.json")
@operation("export_judgements_json", {200: "application/json"}, python=FILE_LINES % "judgements.json")
def get_judgements_json() -> Response:
    """Return all answers as JSON, with the question, the grades and the conditions of the study."""
    study = current_annotation().study
    facts = study_facts(study.plan)
    facts["judgements"] = answer_rows(study.journal.entries, study.plan)
    return _file(json.dumps(facts, indent=1), "application/json", "judgements.json")


@blueprint.get("/annotate/export/images.csv")
@operation("export_images", {200: "text/csv"}, python=FILE_LINES % "images.csv")
def get_images_csv() -> Response:
    """Return score, uncertainty and grade of each image of the study as csv.

    `score` is the severity and `deviation` its standard deviation; both are empty before the first training. `grade`
    is predicted from the score, `given_grade` is the median of the grades that people gave.
    """
    study = current_annotation().study
    results = study_results(study.ids, study.plan, study.model, study.image_answers)
    text = csv_text(RESULT_COLUMNS, result_rows(results, study.plan))
    return _file(text, "text/csv", "images.csv")


def _file(text: str, media: str, name: str) -> Response:
    response = Response(text, mimetype=media)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@blueprint.post("/annotate/severity")
@operation(
    "write_severity",
    {200: WrittenSeverity},
    problems=(409, 507),
    python='httpx.post(f"{server}/annotate/severity", json={}, headers=headers).json()',
    confirm="Write the severity of all images to the collection?",
)
def post_severity() -> Response:
    """Label every image that the ranker has seen with its severity, as of the latest training."""
    model = current_annotation().study.model
    if model is None:
        raise Conflict(
            "there is no trained ranker yet; training starts once a round is complete, or after some grades"
        )
    collection = current_state().searcher().collection
    study_files.copy_ranker_to_collection(model, collection)
    changed = write_severity(collection, model.ids, model.severity.mean, who=actor_name())
    where = list(read_ranker_conditions(model.folder))  # the study may have others since
    written = WrittenSeverity(
        label=LABEL, images=len(model.ids), changed=changed, after=model.after, where=where
    )
    return json_response(written)
