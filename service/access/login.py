"""Login and logout of the pages."""

import re
from http import HTTPStatus

from flask import Blueprint, Response, g, make_response, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from service.access.auth import access_control, check_csrf, cookie_name, current_caller, identify
from service.http import request_body

blueprint = Blueprint("login", __name__)

# A path on this service; browsers take "//host" and "/\host" for other hosts.
LOCAL_PATH = re.compile(r"/([^/\\\x00-\x20][^\\\x00-\x20]*)?")


def _next_path() -> str:
    path = request.values.get("next", "/")
    return path if LOCAL_PATH.fullmatch(path) else "/"


@blueprint.get("/login")
def show() -> AnyResponse:
    """Show the form for a token, or the logout button to a caller who is logged in."""
    return _form() if access_control().required else redirect("/", HTTPStatus.SEE_OTHER)


@blueprint.post("/login")
def log_in() -> AnyResponse:
    """Open a session for the token in the form and redirect to the requested page."""
    control = access_control()
    if not control.required:
        return redirect("/", HTTPStatus.SEE_OTHER)
    token = request_body.read_form().get("token", "").strip()
    wait = control.limiter.seconds_to_wait(request.remote_addr or "")
    if wait:
        error = f"Too many wrong tokens. Try again in {wait} seconds."
        return _form(error, HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(wait)})
    g.caller, refusal = identify(control, token)
    if g.caller is None:
        challenge = {"WWW-Authenticate": 'Bearer realm="cbir"'}
        return _form(f"{refusal}.".capitalize(), HTTPStatus.UNAUTHORIZED, challenge)
    control.sessions.close(request.cookies.get(cookie_name(), ""))
    answer = redirect(_next_path(), HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        cookie_name(),
        control.sessions.open(g.caller.token.token_id),
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
    )
    return answer


@blueprint.post("/logout")
def log_out() -> AnyResponse:
    """Close the session and make the browser clear its cache and storage."""
    check_csrf()
    access_control().sessions.close(request.cookies.get(cookie_name(), ""))
    answer = redirect("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(cookie_name(), secure=request.is_secure, httponly=True, samesite="Strict")
    answer.headers["Clear-Site-Data"] = '"cache", "storage"'
    return answer


def _form(
    error: str | None = None, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    caller = current_caller() if error is None else None
    page = render_template("login.html", error=error, next=_next_path(), caller=caller)
    response = make_response(page, status, headers)
    # With no-referrer, browsers send Origin: null, and the service could not recognise its own form.
    response.headers["Referrer-Policy"] = "same-origin"
    return response
