"""Login of the hospital's users at an OpenID Connect provider."""

import logging
import re
from http import HTTPStatus

from flask import Blueprint, Flask, Response, current_app, g, make_response, redirect, request
from werkzeug.exceptions import NotFound
from werkzeug.urls import iri_to_uri
from werkzeug.wrappers import Response as AnyResponse

from service.access.auth import EXTENSION as ACCESS
from service.access.auth import access_control
from service.access.caller import Caller
from service.access.login import login_form, next_path, start_login
from service.access.scopes import AccessRule, OpenTo
from service.access.token_list import rights_of_groups
from service.collections.app_state import EXTENSION as STATE
from service.features.oidc.oidc_client import LIFETIME_SECONDS, LoginFailed, OidcClient, PendingLogin
from service.languages import gettext
from service.state.database import EXTENSION as DATABASE

ERROR_CODE = re.compile(r"[a-z_]{1,40}")  # RFC 6749, 4.1.2.1
MAX_CODE_LENGTH = 4096
EXTENSION = "cbir-oidc"

RULES = {
    "GET /login/oidc": AccessRule(OpenTo.anyone),
    "GET /login/oidc/callback": AccessRule(OpenTo.anyone, "login"),
}
blueprint = Blueprint("oidc", __name__, url_prefix="/login/oidc")
log = logging.getLogger(__name__)


def install_oidc(app: Flask) -> None:
    """Let users log in at the provider of the setting `oidc_issuer`, if there is one."""
    settings = app.extensions[STATE].settings
    if settings.oidc_issuer:
        app.extensions[EXTENSION] = OidcClient(settings, app.extensions[DATABASE])
        app.extensions[ACCESS].account_login = "oidc.start"


@blueprint.get("")
def start() -> AnyResponse:
    """Send the browser to the provider."""
    client = _client()
    cookie, login = client.pending.begin(next_path())
    try:
        url = client.authorization_url(_callback_url(), login.state, login.nonce, login.verifier)
    except LoginFailed as error:
        return _refused(error, HTTPStatus.BAD_GATEWAY)
    answer = redirect(url, HTTPStatus.SEE_OTHER)
    # Lax: the provider's redirect back is a navigation from another site.
    answer.set_cookie(
        _cookie_name(), cookie, LIFETIME_SECONDS, secure=request.is_secure, httponly=True, samesite="Lax"
    )
    return answer


@blueprint.get("/callback")
def callback() -> AnyResponse:
    """Open a session for the user whom the provider has authenticated."""
    login = _client().pending.end(request.cookies.get(_cookie_name(), ""), request.args.get("state", ""))
    answer: AnyResponse
    if login is None:
        answer = login_form(
            gettext("This login has expired, or began in another browser. Try again."), HTTPStatus.BAD_REQUEST
        )
    else:
        answer = _finish(login)
    answer.delete_cookie(_cookie_name(), secure=request.is_secure, httponly=True, samesite="Lax")
    return answer


def _finish(login: PendingLogin) -> AnyResponse:
    # No failures are counted: codes cannot be guessed, and a fault of the provider would lock out a site.
    client, control = _client(), access_control()
    code = request.args.get("code", "")
    if not 0 < len(code) <= MAX_CODE_LENGTH:
        reason = request.args.get("error", "")
        return _refused(LoginFailed(f"the provider says {reason if ERROR_CODE.fullmatch(reason) else 'no'}"))
    try:
        user = client.fetch_user(code, _callback_url(), login.nonce, login.verifier)
    except LoginFailed as error:
        return _refused(error)
    rights = rights_of_groups(control.groups, user.groups)
    if rights is None:
        return _refused(
            LoginFailed("the user is in none of the groups that have rights"), HTTPStatus.FORBIDDEN
        )
    g.caller = Caller(rights, user=user.name)
    # The page itself goes on: with a redirect, browsers would withhold the new cookie, since another site began it.
    answer = make_response("", HTTPStatus.OK, {"Refresh": f"0; url={iri_to_uri(login.next)}"})
    start_login(answer, user)
    return answer


def _refused(error: LoginFailed, status: HTTPStatus = HTTPStatus.UNAUTHORIZED) -> Response:
    log.warning("a login at the identity provider failed: %s", error)
    g.failed = True
    return login_form(
        gettext("The login with your hospital account failed: %(reason)s.", reason=error), status
    )


def _client() -> OidcClient:
    client: OidcClient | None = current_app.extensions.get(EXTENSION)
    if client is None:
        raise NotFound
    return client


def _callback_url() -> str:
    return f"{request.scheme}://{request.host}{blueprint.url_prefix}/callback"


def _cookie_name() -> str:
    return "__Host-cbir-login" if request.is_secure else "cbir-login"
