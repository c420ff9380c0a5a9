"""Whether the service is up, and whether it can answer."""

from flask import Blueprint, Response
from sqlalchemy.exc import DatabaseError

from cbir.errors import CbirError
from cbir.messages import Health, Readiness
from service.operations import operation
from service.state import Place, state

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
@operation("health", {200: Health})
def healthz() -> Response:
    """The process answers."""
    return Response(Health(status="ok").model_dump_json(), mimetype="application/json")


@blueprint.get("/livez")
@operation("alive", {200: Health})
def livez() -> Response:
    """The process answers; where this fails it should be started anew."""
    return healthz()


@blueprint.get("/readyz")
@operation("ready", {200: Readiness}, problems=(503,))
def readyz() -> Response:
    """The first collection is open and can be searched; a 503 problem says why it cannot."""
    here = state()
    collection = here.searcher().collection
    view = collection.view()
    others = {name: _said(place) for name, place in here.places.items()} if len(here.places) > 1 else None
    facts = Readiness(
        status="ready",
        images=len(view),
        generation=view.generation,
        profile=collection.profile.name,
        collections=others,
        warning=here.snapshot_problem(),
    )
    return Response(facts.model_dump_json(exclude_none=True), mimetype="application/json")


def _said(place: Place) -> str:
    try:
        place.searcher().collection.view()
    except CbirError as error:
        return str(error)
    except DatabaseError:
        return "its database cannot be read"
    return place.snapshot_problem() or "ready"
