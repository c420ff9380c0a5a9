"""Pairs for a person to judge next."""

from flask import Blueprint, Response, jsonify
from pydantic import Field

from service.access.audit import log_images
from service.annotate.annotation_state import current_annotation
from service.annotate.annotator import annotator_name
from service.annotate.study_progress import study_agreement, study_progress
from service.http import request_params

blueprint = Blueprint("annotate_pairs", __name__)

UNDO_LIMIT = 50  # judgements that can be undone after a reload


class PairParameters(request_params.Parameters):
    """Query of pairs; `who` names the person, for use without tokens."""

    who: str | None = None
    count: int = Field(8, ge=1, le=100)


@blueprint.get("/annotate/pairs")
def get_pairs() -> Response:
    """Return a person's next pairs, latest answers (oldest first), grades, and the progress of the study."""
    params, state = request_params.query_parameters(PairParameters), current_annotation()
    who = annotator_name(params.who)
    next_pairs = state.study.next_pairs(who, params.count)
    latest = state.study.latest_answers(who, UNDO_LIMIT)
    log_images(image_id for pair in next_pairs for image_id in pair[:2])
    return jsonify(
        who=who,
        pairs=[{"first": pair.first, "second": pair.second} for pair in next_pairs],
        history=[
            answer.model_dump(mode="json", include={"name", "first", "second", "image", "seconds"})
            for answer in latest
        ],
        grades={grade.image: grade.grade for grade in state.study.grades if grade.who == who},
        progress=study_progress(state, who),
        agreement=study_agreement(state),
    )
