"""Logging in and out of the page."""

import re
from http import HTTPStatus

from flask import Blueprint, Response, g, make_response, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from service import bodies
from service.access.check import access, check_csrf, cookie_name, identify, who

blueprint = Blueprint("login", __name__)

# A path of this service, and not "//host" or "/\host", which browsers take for another one.
OWN_PATH = re.compile(r"/([^/\\\x00-\x20][^\\\x00-\x20]*)?")


def _next() -> str:
    wanted = request.values.get("next", "/")
    return wanted if OWN_PATH.fullmatch(wanted) else "/"


@blueprint.get("/login")
def show() -> AnyResponse:
    """The form for a token, or for those who are logged in, the button that ends it."""
    return _form() if access().required else redirect("/", HTTPStatus.SEE_OTHER)


@blueprint.post("/login")
def log_in() -> AnyResponse:
    """Open a session for the token in the form, and go on to the page that was asked for."""
    here = access()
    if not here.required:
        return redirect("/", HTTPStatus.SEE_OTHER)
    token = bodies.form().get("token", "").strip()
    wait = here.limiter.wait(request.remote_addr or "")
    if wait:
        response = _form(f"Too many wrong tokens. Try again in {wait} seconds.", HTTPStatus.TOO_MANY_REQUESTS)
        response.headers["Retry-After"] = str(wait)
        return response
    g.who, wrong = identify(here, token)
    if g.who is None:
        response = _form(f"{wrong}.".capitalize(), HTTPStatus.UNAUTHORIZED)
        response.headers["WWW-Authenticate"] = 'Bearer realm="cbir"'
        return response
    here.sessions.close(request.cookies.get(cookie_name(), ""))
    answer = redirect(_next(), HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        cookie_name(),
        here.sessions.open(g.who.token.token_id),
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
    )
    return answer


@blueprint.post("/logout")
def log_out() -> AnyResponse:
    """End the session, and have the browser forget what it kept."""
    check_csrf()
    access().sessions.close(request.cookies.get(cookie_name(), ""))
    answer = redirect("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(cookie_name(), secure=request.is_secure, httponly=True, samesite="Strict")
    answer.headers["Clear-Site-Data"] = '"cache", "storage"'
    return answer


def _form(wrong: str | None = None, status: HTTPStatus = HTTPStatus.OK) -> Response:
    page = render_template("login.html", wrong=wrong, next=_next(), who=who() if wrong is None else None)
    response = make_response(page, status)
    # With no referrer, browsers hide from this service that its own form was sent from its own page.
    response.headers["Referrer-Policy"] = "same-origin"
    return response
