"""Recording and undoing judgements; the response follows once they are on disk."""

from flask import Blueprint, Response, jsonify
from pydantic import FiniteFloat

from cbir.active.judgement_journal import (
    ImageGrade,
    ImageId,
    Name,
    PairAnswer,
    PairJudgement,
    Undo,
    utc_now,
)
from cbir.errors import InvalidInput
from service.access.audit import log_images
from service.annotate.annotation_state import current_annotation
from service.annotate.annotator import annotator_name
from service.annotate.study_progress import study_progress
from service.http import request_params

blueprint = Blueprint("annotate_judgements", __name__)


class JudgementRequest(request_params.Parameters):
    """A judgement. `name` is made by the page and stays the same on retries; `who` is for use without tokens."""

    name: Name
    who: str | None = None
    seconds: float
    first: ImageId
    second: ImageId
    answer: PairAnswer


class GradeRequest(request_params.Parameters):
    """A grade of one image, with fields as in a judgement."""

    name: Name
    who: str | None = None
    seconds: float
    image: ImageId
    grade: FiniteFloat


class UndoRequest(request_params.Parameters):
    """An undo; `undoes` is the name of a judgement of the same person."""

    name: Name
    who: str | None = None
    undoes: Name


@blueprint.post("/annotate/judgements")
def post_judgement() -> Response:
    """Record a judgement. A repeated request changes nothing."""
    request_params.require_json()
    body = request_params.json_body(JudgementRequest)
    study = current_annotation().study
    log_images([body.first, body.second])
    return _record(body, PairJudgement, round=study.round_of(body.first, body.second))


@blueprint.post("/annotate/grades")
def post_image_grade() -> Response:
    """Record the grade of one image. A repeated request changes nothing."""
    request_params.require_json()
    body = request_params.json_body(GradeRequest)
    log_images([body.image])
    return _record(body, ImageGrade)


@blueprint.post("/annotate/undo")
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
    return jsonify(who=name, progress=study_progress(state, name))
