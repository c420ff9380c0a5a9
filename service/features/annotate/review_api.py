"""Review of a study: answers with their history, and the agreement of the annotators."""

from collections import Counter
from dataclasses import asdict

from flask import Blueprint, Response

from service.access.audit import log_images
from service.features.annotate.active.annotator_agreement import annotator_agreement, grade_agreement
from service.features.annotate.active.judgement_journal import ImageGrade, PairAnswer
from service.features.annotate.annotation_state import current_annotation
from service.features.annotate.annotator import logged_in_annotator
from service.features.annotate.review_messages import (
    AnswerInReview,
    AnswersInReview,
    DecisionCount,
    EarlierAnswer,
    ReviewParameters,
    StudyAgreement,
)
from service.features.annotate.study.answer_review import (
    Answer,
    ReviewedAnswer,
    decision_of,
    filter_answers,
    review_answers,
)
from service.http import request_params
from service.http.operations import json_response, operation

blueprint = Blueprint("annotate_review", __name__)

MIRRORED = {PairAnswer.first.value: PairAnswer.second.value, PairAnswer.second.value: PairAnswer.first.value}


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
