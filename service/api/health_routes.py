"""Whether the service is up, and whether it can answer."""

from flask import Blueprint, Response
from sqlalchemy.exc import DatabaseError

from cbir.errors import CbirError
from cbir.client.messages import Health, Readiness
from service.access.auth import access_control, is_anonymous
from service.api.operations import operation
from service.collections.mounted_collection import Place
from service.http.problems import NotReady
from service.collections.app_state import state

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
    """The first collection is open and can be searched; a 503 problem says why it cannot.

    Names of collections and folders are told to those with a token only, where tokens are needed.
    """
    if access_control().required:
        access_control().tokens.all()  # raises where they cannot be read: then nobody is let in
    here, stranger = state(), is_anonymous()
    place = here.place()
    try:
        collection = place.searcher().collection
        view = collection.view()
    except CbirError as error:
        if not stranger:
            raise
        raise NotReady(_for_strangers(place, str(error))) from error
    tell_all = len(here.places) > 1 and not stranger
    warning = here.snapshot_problem()
    facts = Readiness(
        status="ready",
        images=len(view),
        generation=view.generation,
        profile=collection.profile.name,
        collections={name: _said(one) for name, one in here.places.items()} if tell_all else None,
        warning=_for_strangers(place, warning) if stranger and warning else warning,
    )
    return Response(facts.model_dump_json(exclude_none=True), mimetype="application/json")


def _for_strangers(place: Place, text: str) -> str:
    return text.replace(str(place.folder), "the collection")


def _said(place: Place) -> str:
    try:
        place.searcher().collection.view()
    except CbirError as error:
        return str(error)
    except DatabaseError:
        return "its database cannot be read"
    return place.snapshot_problem() or "ready"
