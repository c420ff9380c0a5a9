"""Recording and undoing judgements; the response follows once they are on disk."""

from flask import Blueprint, Response

from cbir.errors import InvalidInput
from service.access.audit import log_images
from service.features.annotate.active.judgement_journal import ImageGrade, PairJudgement, Undo, utc_now
from service.features.annotate.annotation_state import current_annotation
from service.features.annotate.annotator import annotator_name
from service.features.annotate.study_messages import (
    AnswerReceipt,
    GradeRequest,
    JudgementRequest,
    UndoRequest,
)
from service.features.annotate.study_progress import study_progress
from service.http import request_params
from service.http.operations import json_response, operation

blueprint = Blueprint("annotate_judgements", __name__)

PROBLEMS = (413, 415, 422, 507)
LINES = 'httpx.post(f"{server}/annotate/%s", json=body, headers=headers).json()'


@blueprint.post("/annotate/judgements")
@operation(
    "judge",
    {200: AnswerReceipt},
    body={request_params.JSON: JudgementRequest},
    problems=PROBLEMS,
    python=LINES % "judgements",
)
def post_judgement() -> Response:
    """Record a judgement. A repeated request changes nothing."""
    request_params.require_json()
    body = request_params.json_body(JudgementRequest)
    study = current_annotation().study
    log_images([body.first, body.second])
    return _record(body, PairJudgement, round=study.round_of(body.first, body.second))


@blueprint.post("/annotate/grades")
@operation(
    "grade_image",
    {200: AnswerReceipt},
    body={request_params.JSON: GradeRequest},
    problems=PROBLEMS,
    python=LINES % "grades",
)
def post_image_grade() -> Response:
    """Record the grade of one image. A repeated request changes nothing."""
    request_params.require_json()
    body = request_params.json_body(GradeRequest)
    log_images([body.image])
    return _record(body, ImageGrade)


@blueprint.post("/annotate/undo")
@operation(
    "undo",
    {200: AnswerReceipt},
    body={request_params.JSON: UndoRequest},
    problems=PROBLEMS,
    python=LINES % "undo",
)
def post_undo() -> Response:
    """Undo a judgement or grade, by a journal entry of its own."""
    request_params.require_json()
    return _record(request_params.json_body(UndoRequest), Undo)


def _record(
    body: JudgementRequest | GradeRequest | UndoRequest,
    entry_type: type[PairJudgement] | type[ImageGrade] | type[Undo],
    **extra: int,
) -> Response:
    state, name = current_annotation(), annotator_name(body.who)
    fields = body.model_dump(exclude={"who"}) | extra
    try:
        entry = entry_type(at=utc_now(), who=name, **fields)
    except ValueError as error:
        raise InvalidInput("seconds: a number from 0 to 86400") from error
    state.study.judge(entry)
    state.trainer.wake()
    return json_response(AnswerReceipt(who=name, progress=study_progress(state, name)))
