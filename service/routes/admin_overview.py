"""Endpoints for administrators: collections, requests, health and settings of the service, and its tokens."""

import platform
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field

import cbir
from cbir.errors import CbirError, InvalidInput
from cbir.ingest.process_memory import resident_memory
from cbir.settings import Settings
from cbir.store import DatabaseError
from service.access.audit import log_fields
from service.access.auth import access_control
from service.access.caller import actor_name, current_caller
from service.access.token_list import Token, parse_expiry
from service.client import admin_messages as messages
from service.client.admin_messages import TOKEN_ID, NewToken, TokenInfo, TokenList, TokenRequest
from service.client.collection_messages import CollectionInfo
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.http.operations import json_response, operation
from service.http.problems import NotAllowed
from service.http.request_params import JSON, Parameters, json_body, query_parameters
from service.routes.health_routes import collection_state
from service.routes.metrics_routes import KEPT_DAYS, request_history
from service.state.database import state_database

LIBRARIES = ("numpy", "faiss-cpu", "onnxruntime", "pydicom", "SQLAlchemy", "Flask", "pydantic")
PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]*@")  # in an address

blueprint = Blueprint("admin", __name__, url_prefix="/v1/admin")
DEFAULT_LIFETIME = timedelta(days=90)  # as of `cbir admin token create`
TokenId = Annotated[
    str, Field(description="Id of the token, field `token_id` of the list.", examples=[TOKEN_ID])
]


class RequestHistoryParameters(Parameters):
    """Days to show."""

    days: int = Field(30, ge=1, le=KEPT_DAYS, description="Number of days, today included.", examples=[30])


@blueprint.get("/collections")
@operation("collection_states", {200: messages.CollectionStatusList}, python="client.collection_states()")
def get_administered_collections() -> Response:
    """Describe all collections of the service.

    Those that cannot be opened have their problem as `state`, and no facts.
    """
    items = [_collection(handle) for handle in current_state().collections.values()]
    return json_response(messages.CollectionStatusList(items=items))


def _collection(handle: CollectionHandle) -> messages.CollectionStatus:
    status = messages.CollectionStatus(
        name=handle.name, folder=None, state=collection_state(handle), info=None, changed=None
    )
    with suppress(CbirError, DatabaseError):  # its state says why
        collection = handle.whole_searcher().collection
        status.info = CollectionInfo(name=handle.name, **collection.info())
        status.folder = handle.folder.name if handle.is_alias else None
        last = collection.history(None, 1)
        status.changed = last[0].at if last else None
    return status


@blueprint.get("/requests")
@operation(
    "request_history",
    {200: messages.RequestCounts},
    query=RequestHistoryParameters,
    python="client.request_history(days=7)",
)
def get_requests() -> Response:
    """Count the requests of the last days by action, re-ranking method and outcome.

    The counts name no caller and no image. They are kept for 400 days.
    """
    counts = request_history().load(query_parameters(RequestHistoryParameters).days)
    items = [
        messages.RequestCount(**key._asdict(), count=counts[key])
        for key in sorted(sorted(counts), key=lambda key: key.day, reverse=True)
    ]
    return json_response(messages.RequestCounts(items=items))


@blueprint.get("/health")
@operation("service_health", {200: messages.ServiceHealth}, python="client.service_health()")
def get_health() -> Response:
    """Report the health of the service.

    It has the states of its parts, disks, memory, the queue of requests, and versions.
    """
    state = current_state()
    versions = {
        "cbir": cbir.__version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    return json_response(
        messages.ServiceHealth(
            parts=list(_parts()),
            disks=list(_disks()),
            memory_bytes=resident_memory(),
            started=state.started,
            working=state.concurrency.working,
            threads=state.settings.threads,
            waiting=state.concurrency.waiting,
            queue=state.concurrency.queue,
            versions=versions | {name.lower(): version(name) for name in LIBRARIES},
        )
    )


def _parts() -> Iterator[messages.ServicePart]:
    control, state = access_control(), current_state()
    for name, handle in state.collections.items():
        yield messages.ServicePart(name=f"collection {name}", state=collection_state(handle))
    yield messages.ServicePart(
        name="tokens", state=_state_of(control.tokens.all) if control.required else "off"
    )
    audit = "ok" if control.audit and control.audit.is_writable() else "it cannot be written"
    yield messages.ServicePart(name="audit log", state=audit if control.audit else "off")
    yield messages.ServicePart(name="state database", state=_state_of(state_database().check))
    yield messages.ServicePart(name="hospital login", state="ok" if control.account_login else "off")


def _state_of(check: Callable[[], object]) -> str:
    try:
        check()
    except CbirError as error:
        return str(error)
    return "ok"


def _disks() -> Iterator[messages.DiskSpace]:
    """Yield the disks of the folders that the service writes to, each once."""
    seen = set()
    for folder in current_state().folders().values():
        with suppress(OSError):
            device = folder.stat().st_dev
            if device not in seen:
                seen.add(device)
                usage = shutil.disk_usage(folder)
                yield messages.DiskSpace(folder=str(folder), free_bytes=usage.free, total_bytes=usage.total)


@blueprint.get("/settings")
@operation("settings", {200: messages.SettingList}, python="client.settings()")
def get_settings() -> Response:
    """Show the settings in force and their origins.

    They are those of the start of the service; passwords in addresses are hidden.
    """
    state = current_state()
    values = state.settings.model_dump(mode="json")
    items = [
        messages.SettingInfo(
            name=name,
            value=_text(values[name]),
            origin=state.origins[name],
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]
    return json_response(messages.SettingList(items=items))


def _text(value: object) -> str:
    """Return a value as text, without passwords in addresses."""
    text = "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return hide_password(text)


def hide_password(text: str) -> str:
    """Return `text` with *** in place of the password of an address."""
    return PASSWORD.sub(r"\1:***@", text)


@blueprint.get("/tokens")
@operation("tokens", {200: TokenList}, python="client.tokens()")
def get_tokens() -> Response:
    """List all tokens, valid or not.

    Their secrets are stored nowhere. The last use is to some minutes.
    """
    uses = access_control().last_uses.all()
    tokens = reversed(access_control().tokens.all().values())
    return json_response(TokenList(items=[_info(token, uses) for token in tokens]))


@blueprint.post("/tokens")
@operation(
    "create_token",
    {201: NewToken},
    body={JSON: TokenRequest},
    problems=(422,),
    confirm="Create this token?",
    python='client.create_token(["search"], name="reading room")',
)
def post_token() -> Response:
    """Create a token and show it once.

    No token can give away more than it has: one that expires cannot create one that outlives it; its administrator
    does so with `cbir admin token create` on the server. A service that needs no tokens creates none.
    """
    control, body = access_control(), json_body(TokenRequest)
    if not control.required:
        raise NotAllowed(
            "this service needs no tokens; create one with `cbir admin token create` on the server"
        )
    try:
        expires = _expiry(body.expires)
        token, text = control.tokens.create(
            body.scopes, expires, body.name, body.collections, body.where, actor_name()
        )
    except InvalidInput as error:  # of the command's options
        raise InvalidInput(str(error).removeprefix("--")) from error
    log_fields(changed_token=token.token_id)
    return json_response(NewToken(token=text, info=_info(token, {})), 201)


class RevocationParameters(Parameters):
    """Choice of the tokens to revoke."""

    with_made: bool = Field(
        default=False,
        description="Also revoke the tokens that this one has made, those that they have made, and so on.",
        examples=[True],
    )


@blueprint.post("/tokens/<token_id>/revoke")
@operation(
    "revoke_token",
    {200: TokenInfo},
    query=RevocationParameters,
    confirm="Revoke this token, and end all logins made with it?",
    python=f'client.revoke_token("{TOKEN_ID}")',
)
def revoke_token(token_id: TokenId) -> Response:
    """Revoke a token, and end all logins made with it.

    It ends with the next request, and stays in the list for readers of the audit log. Tokens that it has made, field
    `made_by` of the list, stay valid unless `with_made` is set.
    """
    with_made = query_parameters(RevocationParameters).with_made
    token, *made_tokens = access_control().tokens.revoke(token_id, with_made=with_made)
    log_fields(changed_token=token.token_id, also_revoked=[each.token_id for each in made_tokens])
    return json_response(_info(token, access_control().last_uses.all()))


def _expiry(text: str | None) -> datetime | None:
    """Return the expiry of a new token; raises InvalidInput if it would outlive what the caller may give."""
    caller, now = current_caller(), datetime.now(UTC)
    limit, until = None, ""
    if caller and not caller.token:  # of a hospital account, whose rights may end with its groups
        limit, until = now + DEFAULT_LIFETIME, "is valid for at most 90 days if a hospital account creates it"
    elif caller and caller.token and caller.token.expires:
        limit = caller.token.expires
        until = f"cannot outlive the one that creates it, which expires on {limit:%Y-%m-%d %H:%M} UTC"
    if text is None:
        default = now + DEFAULT_LIFETIME
        return min(limit or default, default).replace(microsecond=0)
    expires = parse_expiry(text, now)
    if limit and (expires is None or expires > limit):
        raise InvalidInput(
            f"expires: a token {until}; `cbir admin token create` on the server can create others"
        )
    return expires


def _info(token: Token, uses: dict[str, int]) -> TokenInfo:
    """Return a token as the list shows it. uses: last use of each, in seconds since 1970."""
    used = uses.get(token.token_id)
    return TokenInfo(
        **token.model_dump(exclude={"digest"}),
        state=token.state,
        last_used=datetime.fromtimestamp(used, UTC) if used else None,
    )
