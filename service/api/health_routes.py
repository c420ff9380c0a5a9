"""Health endpoints: /healthz, /livez and /readyz."""

from flask import Blueprint, Response

from cbir.client.messages import Health, Readiness
from cbir.errors import CbirError
from cbir.store import DatabaseError
from service.access.auth import access_control, is_anonymous
from service.api.operations import json_response, operation
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.http.problems import NotReady

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
@operation("health", {200: Health})
def get_healthz() -> Response:
    """Report that the process responds."""
    return json_response(Health(status="ok"))


@blueprint.get("/livez")
@operation("alive", {200: Health})
def get_livez() -> Response:
    """Report that the process responds; restart it if this fails."""
    return get_healthz()


@blueprint.get("/readyz")
@operation("ready", {200: Readiness}, problems=(503,))
def get_readyz() -> Response:
    """Report that the default collection can be searched; a 503 problem says why not.

    If tokens are required, only clients with a token see names of collections and folders.
    """
    if access_control().required:
        access_control().tokens.all()  # raises if they cannot be read: then no client gets in
    state, anonymous = current_state(), is_anonymous()
    handle = state.handle()
    try:
        collection = handle.searcher().collection
        view = collection.view()
    except CbirError as error:
        if not anonymous:
            raise
        raise NotReady(_without_path(handle, str(error))) from error
    others = state.collections if len(state.collections) > 1 and not anonymous else {}
    warning = handle.snapshot_problem()
    facts = Readiness(
        status="ready",
        images=len(view),
        generation=view.generation,
        profile=collection.profile.name,
        collections={name: _status(other) for name, other in others.items()} or None,
        warning=_without_path(handle, warning) if anonymous and warning else warning,
    )
    return Response(facts.model_dump_json(exclude_none=True), mimetype="application/json")


def _without_path(handle: CollectionHandle, text: str) -> str:
    return text.replace(str(handle.folder), "the collection")


def _status(handle: CollectionHandle) -> str:
    try:
        handle.searcher().collection.view()
    except CbirError as error:
        return str(error)
    except DatabaseError:
        return "its database cannot be read"
    return handle.snapshot_problem() or "ready"
