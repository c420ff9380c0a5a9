"""Writing the predicted severity and the ranker to the collection."""

from flask import Blueprint, Response

from cbir.learn.severity.stored_ranker import LABEL, write_severity
from cbir.store.base.stored_models import read_ranker_conditions
from service.access.caller import actor_name
from service.collections.app_state import current_state
from service.features.annotate.annotation_state import current_annotation
from service.features.annotate.study import study_models
from service.features.annotate.study_messages import WrittenSeverity
from service.http.operations import json_response, operation
from service.http.problems import Conflict

blueprint = Blueprint("annotate_severity", __name__)


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
    study_models.copy_ranker_to_collection(model, collection)
    changed = write_severity(collection, model.ids, model.severity.mean, who=actor_name())
    where = list(read_ranker_conditions(model.folder))  # the study may have others since
    written = WrittenSeverity(
        label=LABEL, images=len(model.ids), changed=changed, after=model.after, where=where
    )
    return json_response(written)
