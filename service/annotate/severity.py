"""What was learnt becomes a label of the collection's images, and the ranker goes there for new ones."""

from flask import Blueprint, Response, jsonify

from cbir.active.labels import LABEL, write_severity
from cbir.active.study import models
from service.annotate.state import annotation
from service.problems import Conflict
from service.state import state
from service.who import name

blueprint = Blueprint("annotate_severity", __name__)


@blueprint.post("/annotate/severity")
def severity() -> Response:
    """Label every image that the ranker has seen with the severity it has learnt last."""
    study = annotation().study
    model = study.model
    if model is None:
        raise Conflict("nothing was learnt yet: that happens once a round is full")
    collection = state().searcher().collection
    models.give(study.folder, model.after, collection)
    changed = write_severity(collection, model.ids, model.severity.mean, who=name())
    return jsonify(label=LABEL, images=len(model.ids), changed=changed, after=model.after)
