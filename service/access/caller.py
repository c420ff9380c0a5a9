"""Sender of the current request, its rights, and the details of errors that it may see."""

import logging
from dataclasses import dataclass, field
from pathlib import Path

from flask import Flask, Response, g, has_request_context, request

from cbir.errors import (
    AccessDenied,
    CbirError,
    CollectionBusy,
    CollectionDamaged,
    DatabaseUnavailable,
    StorageFull,
    access_denied,
)
from cbir.system.access_rights import ALL_RIGHTS, Rights, Scope
from service.access.rate_limits import network_of
from service.access.sessions import Session
from service.access.token_list import Token
from service.http.problems import NotReady, error_response
from service.state.schema import StateUnavailable

PUBLIC_DETAILS: dict[type[CbirError], str] = {
    StorageFull: "the disk of the collection is full; nothing is damaged, and searching continues",
    CollectionBusy: "another request, job or process is writing to the collection; try again later",
    CollectionDamaged: "the collection's files are damaged; the log of the service says which",
    AccessDenied: "the service has no right to a file; the log of the service says to which",
    DatabaseUnavailable: "the database of the collection does not answer at the moment; the log says why",
    StateUnavailable: "the state of the service cannot be used at the moment; the log of the service says why",
    NotReady: "the collection cannot be opened at the moment; the log of the service says why",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Caller:
    """Sender of a request: the holder of `token`, or the `user` that a proxy or identity provider has named.

    session: None if the request carried its token, or the proxy's header, itself.
    """

    rights: Rights = field(repr=False)
    token: Token | None = None
    user: str | None = None
    session: Session | None = None

    @property
    def actor(self) -> str:
        """Name in the history of collections and in limits: a token's id, or a user's name."""
        return f"token {self.token.token_id}" if self.token else f"user {self.user}"


def set_rights(rights: Rights | None) -> None:
    """Set the rights of the current request; None: it may see nothing of any collection."""
    g.rights = rights


def current_caller() -> Caller | None:
    """Return the caller of the current request; None if it is not authenticated."""
    caller: Caller | None = g.get("caller")
    return caller


def current_rights() -> Rights | None:
    """Return the rights of the current request; None if it has none. Code outside of requests has all rights."""
    if not has_request_context():
        return ALL_RIGHTS
    rights: Rights | None = g.get("rights")
    return rights


def has_admin_rights() -> bool:
    """Return True if the request may do everything: by its scope, or because no token is needed."""
    rights = current_rights()
    return rights is not None and rights.allows(Scope.admin)


def actor_name() -> str:
    """Return the name under which the history records a change of the current request.

    It is the token's id, which identifies no person by itself, the name of a user who has logged in, or "service"
    if no token was needed.
    """
    caller = current_caller()
    return caller.actor if caller else "service"


def caller_key() -> str:
    """Return the name that the sender of the current request has in shared limits, "" outside of requests.

    It is that of the token or user, or the network of the address if no token was needed.
    """
    if not has_request_context():
        return ""
    caller = current_caller()
    return caller.actor if caller else network_of(request.remote_addr or "")


def hide_private_details(app: Flask) -> None:
    """Replace the details of errors that name paths or processes in the responses of `app`."""
    for error_type in PUBLIC_DETAILS:
        app.register_error_handler(error_type, _handle)
    app.register_error_handler(PermissionError, _handle_denied)


def public_text(error: CbirError) -> str:
    """Return the message of `error` that the caller of the current request may see."""
    public = next((PUBLIC_DETAILS[base] for base in type(error).__mro__ if base in PUBLIC_DETAILS), None)
    return str(error) if public is None or has_admin_rights() else public


def logged_public_text(error: CbirError) -> str:
    """Return the message of `error` that the caller may see; log it where that says less."""
    text = public_text(error)
    if text != str(error):
        log.warning("%s", error)
    return text


def _handle_denied(error: PermissionError) -> Response:
    if not error.filename:
        return _handle(AccessDenied(f"the service lacks a right ({error.strerror or error})"))
    return _handle(access_denied(error, Path(), writing=True))


def _handle(error: CbirError) -> Response:
    return error_response(error, logged_public_text(error))
