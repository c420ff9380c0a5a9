"""Health endpoints: /healthz, /livez and /readyz."""

from collections.abc import Iterable
from contextlib import suppress

from flask import Blueprint, Response

from cbir.errors import CbirError, DatabaseUnavailable
from cbir.store import DatabaseError
from cbir.system.device import choose_device
from service.access.auth import access_control, audit_unwritable, is_anonymous
from service.access.caller import current_rights, has_admin_rights, public_text
from service.client.messages import Health, Readiness
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.collections.part_checks import AUDIT_LOG, names_of_down_parts
from service.http.operations import operation
from service.http.problems import NotReady

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
@operation("health", {200: Health}, python="client.health()")
def get_healthz() -> Response:
    """Report that the process responds, and which of the servers it depends on do not.

    The status is always 200. It says nothing else about the collections; see `ready`.
    """
    degraded = _degraded_parts()
    facts = Health(
        status="degraded" if degraded else "ok", degraded=degraded or None, down=_down_databases() or None
    )
    return _response(facts)


@blueprint.get("/livez")
@operation("alive", {200: Health}, python="client.alive()")
def get_livez() -> Response:
    """Report that the process responds, for liveness probes.

    Restart the process if this fails.
    """
    return _response(Health(status="ok"))


@blueprint.get("/readyz")
@operation("ready", {200: Readiness}, python="client.ready()")
def get_readyz() -> Response:
    """Report that the default collection can be searched; a 503 problem says that it cannot.

    So does an audit log that cannot be written while the setting `audit_failure` is `closed`: all requests that are
    logged are refused then.
    If tokens are required, only clients with a token that is not limited to a part of the images see more.
    """
    control = access_control()
    if control.required:
        control.tokens.all()  # raises if they cannot be read: then no client gets in
    if control.audit_required and control.audit_is_down():
        return audit_unwritable()
    state, stranger = current_state(), is_anonymous()
    rights = current_rights()
    handle = state.collections[state.default]
    collection = handle.whole_searcher().collection
    images = handle.image_count()
    if stranger or rights is None or rights.limited:
        return _response(Readiness(status="ready", degraded=_degraded_parts() or None))
    others = state.collections if len(state.collections) > 1 else {}
    facts = Readiness(
        status="ready",
        degraded=_degraded_parts() or None,
        images=images,
        generation=collection.generation(),
        profile=collection.profile.name,
        collections={name: collection_state(other) for name, other in others.items()} or None,
        folders=_alias_folders(state.collections.values()) or None,
        device=_device(handle),
        warning="; ".join(filter(None, (_problem(handle), _lost_lines()))) or None,
    )
    return _response(facts)


def _device(handle: CollectionHandle) -> str:
    """Return the device in use, and that of the index where it is another one."""
    choice, index = (
        choose_device(current_state().settings.device),
        handle.whole_searcher().vectors.of_view.device,
    )
    return f"{choice}; the index of the collection is on {index}" if index != choice.name else str(choice)


def _response(facts: Health | Readiness) -> Response:
    return Response(facts.model_dump_json(exclude_none=True), mimetype="application/json")


def _degraded_parts() -> list[str]:
    """Return the names of the parts that do not answer, which tell nothing about collections."""
    state = current_state()
    handles = state.collections.values()
    databases = [handle.database_problem for handle in handles]
    names = names_of_down_parts(state.parts, databases, [handle.index_problem for handle in handles])
    return [*names, AUDIT_LOG] if access_control().audit_is_down() else names


def _lost_lines() -> str | None:
    audit = access_control().audit
    if not audit or not audit.lost:
        return None
    return f"{audit.lost} requests since the start are not in the audit log, which could not be written"


def _down_databases() -> dict[str, str]:
    """Return the reasons by collection that the caller may use, as far as they are known: nothing is asked here."""
    state = current_state()
    problems = {name: state.collections[name].database_problem for name in state.visible_names()}
    return {name: public_text(DatabaseUnavailable(problem)) for name, problem in problems.items() if problem}


def _alias_folders(handles: Iterable[CollectionHandle]) -> dict[str, str]:
    folders = {}
    for handle in handles:
        with suppress(NotReady):  # its state says so
            if handle.is_alias:
                folders[handle.name] = handle.folder.name
    return folders


def _problem(handle: CollectionHandle) -> str | None:
    problem = handle.snapshot_problem()
    return (
        problem.replace(str(handle.folder), "the collection")
        if problem and not has_admin_rights()
        else problem
    )


def collection_state(handle: CollectionHandle) -> str:
    """Return "ready", or what the caller may know about the problem of a collection."""
    try:
        handle.image_count()
    except CbirError as error:
        return public_text(error)
    except DatabaseError:
        return "its database cannot be read"
    return _problem(handle) or "ready"
