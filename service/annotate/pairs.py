"""The pairs a person is asked next."""

from flask import Blueprint, Response, jsonify
from pydantic import BaseModel, ConfigDict, Field

from service import asked
from service.access.audit import about
from service.annotate.progress import agreed, progress
from service.annotate.state import annotation
from service.annotate.who import annotator

blueprint = Blueprint("annotate_pairs", __name__)

REMEMBERED = 50  # judgements that a page loaded anew can take back


class Wanted(BaseModel):
    """who: the person, where no tokens are needed."""

    model_config = ConfigDict(extra="forbid")

    who: str | None = None
    count: int = Field(8, ge=1, le=100)


@blueprint.get("/annotate/pairs")
def pairs() -> Response:
    """The next pairs of a person, the last judgements, the newest last, and how far the study is."""
    wanted, here = asked.query(Wanted), annotation()
    who = annotator(wanted.who)
    found = here.study.next_pairs(who, wanted.count)
    last = here.study.last_of(who, REMEMBERED)
    about(image for one in found for image in one[:2])
    return jsonify(
        who=who,
        pairs=[{"first": one.first, "second": one.second} for one in found],
        history=[one.model_dump(mode="json", include={"name", "first", "second", "seconds"}) for one in last],
        progress=progress(here, who),
        agreement=agreed(here),
    )
