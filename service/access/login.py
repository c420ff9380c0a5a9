"""Login and logout of the pages."""

import re
from http import HTTPStatus

from flask import Blueprint, Response, g, make_response, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from service.access.auth import LOGGED_IN_PAGE, access_control, check_csrf, cookie_name, identify
from service.access.caller import current_caller
from service.access.sessions import User
from service.http import request_bodies
from service.languages import gettext, mark

blueprint = Blueprint("login", __name__)

# A path on this service; browsers take "//host" and "/\host" for other hosts.
REFUSALS = (  # of `identify`, for the catalogues
    mark("The token is unknown."),
    mark("The token has expired."),
    mark("The token has been revoked."),
)
LOCAL_PATH = re.compile(r"/([^/\\\x00-\x20][^\\\x00-\x20]*)?")


def next_path() -> str:
    """Return the page of this service to show after the login."""
    path = request.values.get("next", "/")
    return path if LOCAL_PATH.fullmatch(path) else "/"


@blueprint.get("/login")
def show() -> AnyResponse:
    """Show the form for a token, or the logout button to a caller who is logged in."""
    return login_form() if access_control().required else redirect("/", HTTPStatus.SEE_OTHER)


@blueprint.post("/login")
def log_in() -> AnyResponse:
    """Open a session for the token in the form and redirect to the requested page."""
    control = access_control()
    if not control.required:
        return redirect("/", HTTPStatus.SEE_OTHER)
    token = request_bodies.read_form().get("token", "").strip()
    wait = control.limiter.seconds_to_wait(request.remote_addr or "")
    if wait:
        error = gettext("Too many wrong tokens. Try again in %(wait)s seconds.", wait=wait)
        return login_form(error, HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(wait)})
    g.caller, refusal = identify(control, token)
    caller = current_caller()
    if caller is None or caller.token is None:
        challenge = {"WWW-Authenticate": 'Bearer realm="cbir"'}
        reason = f"{refusal}.".capitalize()
        return login_form(gettext(reason), HTTPStatus.UNAUTHORIZED, challenge)
    answer = redirect(next_path(), HTTPStatus.SEE_OTHER)
    start_login(answer, caller.token.token_id)
    return answer


@blueprint.get(LOGGED_IN_PAGE)
def show_done() -> AnyResponse:
    """Tell the tab that waits for this login that it is made; a caller who is not logged in sees the form."""
    if current_caller() is None:
        return redirect("/login", HTTPStatus.SEE_OTHER)
    return make_response(render_template("login_done.html"))


def start_login(answer: AnyResponse, subject: str | User) -> None:
    """Open a session for the id of a token, or for a user, and set its cookie in `answer`."""
    sessions = access_control().sessions
    sessions.close(request.cookies.get(cookie_name(), ""))
    cookie = sessions.open(subject)
    answer.set_cookie(cookie_name(), cookie, secure=request.is_secure, httponly=True, samesite="Strict")


@blueprint.post("/logout")
def log_out() -> AnyResponse:
    """Close the session and make the browser clear its cache and storage."""
    check_csrf()
    access_control().sessions.close(request.cookies.get(cookie_name(), ""))
    answer = redirect("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(cookie_name(), secure=request.is_secure, httponly=True, samesite="Strict")
    answer.headers["Clear-Site-Data"] = '"cache", "storage"'
    return answer


def login_form(
    error: str | None = None, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    """Return the login page; without an `error`, a caller who is logged in sees the logout button."""
    caller = current_caller() if error is None else None
    account_login = access_control().account_login
    page = render_template(
        "login.html", error=error, next=next_path(), caller=caller, account_endpoint=account_login
    )
    response = make_response(page, status, headers)
    # With no-referrer, browsers send Origin: null, and the service could not recognise its own form.
    response.headers["Referrer-Policy"] = "same-origin"
    return response
