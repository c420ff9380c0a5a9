"""Whether the service is up, and whether it can answer."""

from flask import Blueprint, Response, jsonify

from service.state import state

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
def healthz() -> Response:
    """The process answers."""
    return jsonify(status="ok")


@blueprint.get("/readyz")
def readyz() -> Response:
    """The collection is open and can be searched; a 503 problem says why it cannot."""
    here = state()
    collection = here.searcher().collection
    view = collection.view()
    facts = {
        "status": "ready",
        "images": len(view),
        "generation": view.generation,
        "profile": collection.profile.name,
    }
    warning = here.snapshot_problem()
    return jsonify(facts | {"warning": warning} if warning else facts)
