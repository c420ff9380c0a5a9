"""Judgements and undoing them: answered once they are on the disk."""

from flask import Blueprint, Response, jsonify
from pydantic import BaseModel, ConfigDict

from cbir.active.journal import Answer, ImageId, Judgement, Name, Undo, now
from cbir.errors import InvalidInput
from service import asked
from service.access.audit import about
from service.annotate.progress import progress
from service.annotate.state import annotation
from service.annotate.who import annotator

blueprint = Blueprint("annotate_judgements", __name__)


class Said(BaseModel):
    """name: made by the page, the same where it sends again. who: where no tokens are needed."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    who: str | None = None
    seconds: float
    first: ImageId
    second: ImageId
    answer: Answer


class TakenBack(BaseModel):
    """undoes: the name of a judgement of the same person."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    who: str | None = None
    undoes: Name


@blueprint.post("/annotate/judgements")
def judge() -> Response:
    """Write a judgement. Where it was written before, nothing changes."""
    asked.require_json()
    said = asked.body(Said)
    study = annotation().study
    about([said.first, said.second])
    return _written(said, Judgement, said.who, round=study.round_of(said.first, said.second))


@blueprint.post("/annotate/undo")
def undo() -> Response:
    """Take a judgement back: an entry of its own."""
    asked.require_json()
    taken = asked.body(TakenBack)
    return _written(taken, Undo, taken.who)


def _written(
    given: Said | TakenBack, kind: type[Judgement] | type[Undo], who: str | None, **more: int
) -> Response:
    here, person = annotation(), annotator(who)
    fields = given.model_dump(exclude={"who"}) | more
    try:
        entry = kind(at=now(), who=person, **fields)
    except ValueError as error:
        raise InvalidInput("seconds: a number from 0 to 86400") from error
    here.study.judge(entry)
    here.learner.wake()
    return jsonify(who=person, progress=progress(here, person))
