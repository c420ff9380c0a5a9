"""Judging: pairs and images for a person, their pictures, and answers, which are on disk before the response."""

from functools import partial
from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field, FiniteFloat

from cbir.errors import InvalidInput, NotFound
from cbir.images.image import Window, Windowing
from cbir.ingest.decoder_tasks import ImageChoice, RenderedImage, render_in_window
from cbir.store import Collection, Record
from service.access.audit import log_images
from service.access.caller import current_caller
from service.collections.app_state import AppState, current_state
from service.collections.image_sources import decode_source
from service.features.annotate.active.annotator_agreement import annotator_agreement
from service.features.annotate.active.judgement_journal import ImageGrade, PairJudgement, Undo, utc_now
from service.features.annotate.annotation_studies import AnnotationState, current_annotation
from service.features.annotate.messages import (
    AnswerReceipt,
    GivenAnswer,
    GradeRequest,
    JudgementRequest,
    NextImages,
    NextPair,
    NextPairs,
    NextParameters,
    PairAgreement,
    StudyParameters,
    StudyProgress,
    UndoRequest,
)
from service.http import request_params
from service.http.operations import json_response, operation
from service.http.problems import SourceGone
from service.http.request_params import Numbers
from service.http.responses import picture_response
from service.http.timeouts import Deadline
from service.routes.image_routes import ImageIdInPath

MAX_LENGTH = 100  # characters, as for the name of a token
blueprint = Blueprint("annotate_judging", __name__)
UNDO_LIMIT = 50  # judgements that can be undone after a reload
GET_LINES = 'httpx.get(f"{server}/annotate/%s", params={"count": 4}, headers=headers).json()'
MIN_SIDE, MAX_SIDE = 32, 1280  # pixels
EIGHT_BIT_WINDOW = Windowing(127.5, 255.0, 0.0, 255.0)  # of images that are not grey DICOM: pixels unchanged
Center = Annotated[FiniteFloat, Field(ge=-1e9, le=1e9)]
Width = Annotated[FiniteFloat, Field(gt=0, le=1e9)]
PROBLEMS = (413, 415, 422, 507)
POST_LINES = 'httpx.post(f"{server}/annotate/%s", json=body, headers=headers).json()'


def annotator_name(entered: str | None) -> str:
    """Return the caller's name, or else the id of its token, or the `entered` name if no token is needed.

    Raises InvalidInput if the name is missing, too long or not printable.
    """
    caller = current_caller()
    if caller and caller.token:
        return caller.token.name.strip() or caller.token.token_id
    if caller and caller.user:
        return caller.user
    name = (entered or "").strip()
    if not name or len(name) > MAX_LENGTH or not name.isprintable():
        raise InvalidInput(f"who: the name of the annotator, 1 to {MAX_LENGTH} printable characters")
    return name


def logged_in_annotator() -> str | None:
    """Return the name of the caller who is logged in; None if no token is needed."""
    return annotator_name(None) if current_caller() else None


def study_progress(state: AnnotationState, who: str) -> StudyProgress:
    """Return the progress of a study for the page of `who`."""
    study, model = state.study, state.study.model
    judged, total = study.count_judged(study.current)
    return StudyProgress(
        round=study.current.number,
        rounds=study.plan.rounds,
        done=judged,
        of=total,
        judged=len(study.latest_judgements(who, len(study.judgements))),
        graded=len({grade.image for grade in study.grades}),
        graded_by_you=sum(answer.who == who for answer in study.image_answers),
        images=len(study.ids),
        people=len({judgement.who for judgement in study.judgements}),
        learning=state.trainer.state,
        learnt=model.after if model else 0,
        trained_on=max(model.entries, 1) if model else 0,
        finished=study.finished,
    )


def study_agreement(state: AnnotationState) -> PairAgreement | None:
    """Return the agreement between annotators; None if no pair was judged by two people."""
    result = annotator_agreement(state.study.judgements)
    if not result.pairs:
        return None
    return PairAgreement(people=result.people, pairs=result.pairs, alpha=result.alpha)


@blueprint.get("/annotate/pairs")
@operation("next_pairs", {200: NextPairs}, query=NextParameters, problems=(422,), python=GET_LINES % "pairs")
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
@operation(
    "next_images", {200: NextImages}, query=NextParameters, problems=(422,), python=GET_LINES % "images"
)
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


class AnnotationPictureParameters(StudyParameters):
    """Query of a picture; `window` is center,width on the scale of Image-Values, None for the image's own."""

    window: Annotated[tuple[Center, Width] | None, Numbers] = Field(
        None,
        description="Window as center,width on the scale of Image-Values; by default that of the file.",
        examples=[[40, 400]],
    )
    side: int = Field(
        MAX_SIDE,
        ge=MIN_SIDE,
        le=MAX_SIDE,
        description="Largest side of the picture in pixels.",
        examples=[256],
    )


@blueprint.get("/annotate/images/<image_id>/picture")
@operation(
    "annotation_picture",
    {200: "image/png", 304: None},
    query=AnnotationPictureParameters,
    headers=("If-None-Match",),
    problems=(404, 410, 422),
    python='httpx.get(f"{server}/annotate/images/{image_id}/picture", headers=headers).content',
)
def get_annotation_picture(image_id: ImageIdInPath) -> Response:
    """Return a PNG of the image's file, or of its thumbnail if the file is gone.

    Headers: Image-Window has the center,width of the rendering; Image-Values the min,max of the values;
    Image-Scale is "stored" for values of a DICOM file and "shown" for grey values from 0 to 255.
    """
    state, params = current_state(), request_params.query_parameters(AnnotationPictureParameters)
    window, side = params.window, params.side
    annotation = current_annotation(without_404=True)
    if not annotation.study.shows(image_id):
        raise NotFound(f"the study has no image {image_id}")
    collection = state.searcher(annotation.collection).collection
    record = collection.record(image_id)

    def render(response: Response) -> None:
        with state.concurrency.admit():
            image = _render(state, collection, record, window, side)
        response.set_data(image.data)
        _set_headers(response, image.windowing, window)

    return picture_response(f"{record.content_hash}-{side}-{window}", render)


def _render(
    state: AppState, collection: Collection, record: Record, window: Window | None, side: int
) -> RenderedImage:
    render, decoders = partial(render_in_window, side=side, window=window), state.decoders
    try:
        return decode_source(decoders, collection, record, render)
    except SourceGone:
        thumbnail = collection.thumbnail(record.image_id)
        if thumbnail is None:
            raise
    choice = ImageChoice(thumbnail, "the thumbnail", decoders.limits)
    return decoders.run(partial(render, choice), Deadline().check)


def _set_headers(response: Response, windowing: Windowing | None, window: Window | None) -> None:
    default = windowing or EIGHT_BIT_WINDOW
    center, width = window or default[:2]
    response.headers["Image-Window"] = f"{center:.10g},{width:.10g}"
    response.headers["Image-Values"] = f"{default.least:.10g},{default.greatest:.10g}"
    response.headers["Image-Scale"] = "stored" if windowing else "shown"


@blueprint.post("/annotate/judgements")
@operation(
    "judge",
    {200: AnswerReceipt},
    query=StudyParameters,
    body={request_params.JSON: JudgementRequest},
    problems=PROBLEMS,
    python=POST_LINES % "judgements",
)
def post_judgement() -> Response:
    """Record a judgement. A repeated request changes nothing."""
    body = request_params.json_body(JudgementRequest)
    study = current_annotation().study
    log_images([body.first, body.second])
    return _record(body, PairJudgement, round=study.round_of(body.first, body.second))


@blueprint.post("/annotate/grades")
@operation(
    "grade_image",
    {200: AnswerReceipt},
    query=StudyParameters,
    body={request_params.JSON: GradeRequest},
    problems=PROBLEMS,
    python=POST_LINES % "grades",
)
def post_image_grade() -> Response:
    """Record the grade of one image. A repeated request changes nothing."""
    body = request_params.json_body(GradeRequest)
    log_images([body.image])
    return _record(body, ImageGrade)


@blueprint.post("/annotate/undo")
@operation(
    "undo",
    {200: AnswerReceipt},
    query=StudyParameters,
    body={request_params.JSON: UndoRequest},
    problems=PROBLEMS,
    python=POST_LINES % "undo",
)
def post_undo() -> Response:
    """Undo a judgement or grade, by a journal entry of its own."""
    return _record(request_params.json_body(UndoRequest), Undo)


def _record(
    body: JudgementRequest | GradeRequest | UndoRequest,
    entry_type: type[PairJudgement] | type[ImageGrade] | type[Undo],
    **extra: int,
) -> Response:
    request_params.query_parameters(StudyParameters)
    state, name = current_annotation(), annotator_name(body.who)
    fields = body.model_dump(exclude={"who"}) | extra
    try:
        entry = entry_type(at=utc_now(), who=name, **fields)
    except ValueError as error:
        raise InvalidInput("seconds: a number from 0 to 86400") from error
    state.study.judge(entry)
    state.trainer.wake()
    return json_response(AnswerReceipt(who=name, progress=study_progress(state, name)))
