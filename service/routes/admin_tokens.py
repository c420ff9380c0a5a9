"""Endpoints of tokens: the same as `cbir token`, for administrators without a shell on the server."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field

from cbir.errors import InvalidInput
from service.access.audit import log_changed_token
from service.access.auth import access_control
from service.access.caller import actor_name, current_caller
from service.access.token_list import Token, parse_expiry
from service.client.admin_messages import TOKEN_ID, NewToken, TokenInfo, TokenList, TokenRequest
from service.http.operations import json_response, operation
from service.http.problems import NotAllowed
from service.http.request_params import JSON, Parameters, json_body, query_parameters, require_json

blueprint = Blueprint("admin", __name__, url_prefix="/v1/admin")

DEFAULT_LIFETIME = timedelta(days=90)  # as of `cbir token create`

TokenId = Annotated[
    str, Field(description="Id of the token, field `token_id` of the list.", examples=[TOKEN_ID])
]


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
    problems=(400, 413, 415, 422),
    confirm="Create this token?",
    python='client.create_token(["search"], name="reading room")',
)
def post_token() -> Response:
    """Create a token and show it once.

    No token can give away more than it has: one that expires cannot create one that outlives it; its administrator
    does so with `cbir token create` on the server. A service that needs no tokens creates none.
    """
    require_json()
    control, body = access_control(), json_body(TokenRequest)
    if not control.required:
        raise NotAllowed("this service needs no tokens; create one with `cbir token create` on the server")
    try:
        expires = _expiry(body.expires)
        token, text = control.tokens.create(
            body.scopes, expires, body.name, body.collections, body.where, actor_name()
        )
    except InvalidInput as error:  # of the command's options
        raise InvalidInput(str(error).removeprefix("--")) from error
    log_changed_token(token.token_id)
    return json_response(NewToken(token=text, info=_info(token, {})), 201)


class RevocationParameters(Parameters):
    """Which tokens are revoked."""

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
    problems=(404,),
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
    log_changed_token(token.token_id, [each.token_id for each in made_tokens])
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
        raise InvalidInput(f"expires: a token {until}; `cbir token create` on the server can create others")
    return expires


def _info(token: Token, uses: dict[str, int]) -> TokenInfo:
    """Return a token as the list shows it. uses: last use of each, in seconds since 1970."""
    used = uses.get(token.token_id)
    return TokenInfo(
        **token.model_dump(exclude={"digest"}),
        state=token.state,
        last_used=datetime.fromtimestamp(used, UTC) if used else None,
    )
