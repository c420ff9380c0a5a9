"""Sender of the current request, and its rights."""

from dataclasses import dataclass, field

from flask import g, has_request_context, request

from cbir.system.access_rights import ALL_RIGHTS, Rights, Scope
from service.access.limiter import network_of
from service.access.sessions import Session
from service.access.token_list import Token


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
