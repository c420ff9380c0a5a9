"""Pairs and images for a person to judge next."""

from flask import Blueprint, Response

from service.access.audit import log_images
from service.features.annotate.active.judgement_journal import ImageGrade, PairJudgement
from service.features.annotate.annotation_state import current_annotation
from service.features.annotate.annotator import annotator_name
from service.features.annotate.study_messages import (
    GivenAnswer,
    NextImages,
    NextPair,
    NextPairs,
    NextParameters,
)
from service.features.annotate.study_progress import study_agreement, study_progress
from service.http import request_params
from service.http.operations import operation

blueprint = Blueprint("annotate_next", __name__)

UNDO_LIMIT = 50  # judgements that can be undone after a reload
LINES = 'httpx.get(f"{server}/annotate/%s", params={"count": 4}, headers=headers).json()'


@blueprint.get("/annotate/pairs")
@operation("next_pairs", {200: NextPairs}, query=NextParameters, problems=(422,), python=LINES % "pairs")
def get_pairs() -> Response:
    """Return a person's next pairs, latest answers, grades, and the progress of the study."""
    params, state = request_params.query_parameters(NextParameters), current_annotation()
    who = annotator_name(params.who)
    next_pairs = state.study.next_pairs(who, params.count)
    log_images(image_id for pair in next_pairs for image_id in pair[:2])
    response = NextPairs(
        who=who,
        pairs=[NextPair(first=pair.first, second=pair.second) for pair in next_pairs],
        history=[_answer_message(answer) for answer in state.study.latest_answers(who, UNDO_LIMIT)],
        grades={
            each.image: each.grade
            for each in state.study.grades
            if each.who == who and each.grade is not None
        },
        progress=study_progress(state, who),
        agreement=study_agreement(state),
    )
    return _json(response)


@blueprint.get("/annotate/images")
@operation("next_images", {200: NextImages}, query=NextParameters, problems=(422,), python=LINES % "images")
def get_single_images() -> Response:
    """Return a person's next single images to grade, latest grades, and the progress of the study.

    Before the first training the order is random; then all parts of the scale take turns, each with the image that
    the model is least certain about.
    """
    params, state = request_params.query_parameters(NextParameters), current_annotation()
    who = annotator_name(params.who)
    next_images = state.study.next_images(who, params.count) if state.study.plan.grades else []
    log_images(next_images)
    answers = [answer for answer in state.study.image_answers if answer.who == who]
    response = NextImages(
        who=who,
        images=next_images,
        history=[_answer_message(answer) for answer in answers[-UNDO_LIMIT:]],
        grades={answer.image: answer.grade for answer in answers},
        progress=study_progress(state, who),
    )
    return _json(response)


def _answer_message(answer: PairJudgement | ImageGrade) -> GivenAnswer:
    subject = {"image"} if isinstance(answer, ImageGrade) else {"first", "second"}
    return GivenAnswer(**answer.model_dump(include={"name", "seconds"} | subject))


def _json(response: NextPairs | NextImages) -> Response:
    """Return `response` as JSON, each answer with the fields of its kind only."""
    return Response(response.model_dump_json(exclude_unset=True), mimetype="application/json")
