"""The door: every request is let in, or told what it lacks."""

import hmac
import logging
from http import HTTPStatus
from typing import NamedTuple

from flask import (
    Flask,
    Request,
    Response,
    current_app,
    g,
    make_response,
    redirect,
    render_template,
    request,
    url_for,
)
from werkzeug.exceptions import Forbidden

from cbir.settings import Settings
from service import bodies
from service.access import scopes, start
from service.access.audit import about
from service.access.limiter import Limiter
from service.access.proxies import PEER, PROXIED, Proxies
from service.access.sessions import Session, Sessions
from service.access.tokens import Scope, Token, Tokens, TokensUnreadable
from service.guards import READING, allow_frames, is_loopback
from service.problems import problem

EXTENSION = "cbir-access"
CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf"
FRAMED_PAGE, DEST = "/similar", "Sec-Fetch-Dest"

log = logging.getLogger(__name__)


class Who(NamedTuple):
    """Who a request is from; session: None where it brought its token itself."""

    token: Token
    session: Session | None = None


class Access:
    """What the door of one app knows."""

    def __init__(self, settings: Settings) -> None:
        self.required = start.tokens_required(settings)
        self.tokens = Tokens(settings.state_folder)
        self.sessions = Sessions()
        self.limiter = Limiter(settings.failed_attempts, settings.failed_attempts_seconds)
        self.audit = start.open_audit(settings)
        self.frame_origins = settings.frame_origins


def access() -> Access:
    """The door of the app that answers the present request."""
    found: Access = current_app.extensions[EXTENSION]
    return found


def who() -> Who | None:
    """Who the present request is from, as far as that is known."""
    found: Who | None = g.get("who")
    return found


def install(app: Flask, settings: Settings) -> None:
    """Put the door before every request of `app`; raises InvalidInput where its audit log cannot be written."""
    app.extensions[EXTENSION] = Access(settings)
    app.wsgi_app = Proxies(app.wsgi_app, settings.trusted_proxies)  # type: ignore[method-assign]
    app.register_error_handler(TokensUnreadable, _nobody)
    app.before_request(_check)
    app.after_request(_record)
    app.context_processor(_csrf)


def cookie_name() -> str:
    """The name of the login's cookie; a browser keeps one that begins with __Host- to this host and https."""
    return "__Host-cbir" if request.is_secure else "cbir"


def _check() -> Response | None:
    here = access()
    if not here.required:
        _check_is_this_machine()
        return None
    asked = scopes.asked(request)
    if asked is None:
        log.error("%s %s has no entry in service/access/scopes.py", request.method, request.url_rule)
        raise Forbidden("no token opens this address")
    g.who = _of_cookie(here)
    if asked.need is scopes.Reach.anyone:
        return None
    if text := _bearer():
        if wait := here.limiter.wait(request.remote_addr or ""):
            return too_many(wait)
        g.who, wrong = identify(here, text)
        if wrong:
            return _unauthorized(wrong, "invalid_token")
    if g.who is None:
        return (
            _log_in()
            if _navigates(request)
            else _unauthorized("a token is needed: send Authorization: Bearer TOKEN, or log in at /login")
        )
    _check_scope(asked.need, g.who)
    check_csrf()
    return None


def is_stranger() -> bool:
    """Whether an address that is open to everybody is asked by somebody who has shown no valid token.

    A wrong one is no reason to refuse the answer, but counts as a failed attempt.
    """
    here, text = access(), _bearer()
    if here.required and who() is None and text and not here.limiter.wait(request.remote_addr or ""):
        g.who, _ = identify(here, text)
    return here.required and who() is None


def _bearer() -> str | None:
    """The token in the request's header, as it was sent; None where there is none."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def _check_is_this_machine() -> None:
    """For an app that another server serves, on an address that the settings do not know of."""
    peer = request.environ.get(PEER) or "localhost"
    if not is_loopback(peer) and not request.environ.get(PROXIED):
        raise Forbidden("without tokens, only this machine is answered")


def _of_cookie(here: Access) -> Who | None:
    session = here.sessions.get(request.cookies.get(cookie_name(), ""))
    token = here.tokens.get(session.token_id) if session else None
    return Who(token, session) if token else None


def identify(here: Access, text: str) -> tuple[Who | None, str | None]:
    """Whose token a text is, or what is wrong with it. What is nobody's counts as a failed attempt.

    An expired or revoked token does not: whoever has one is not guessing, and must not shut out all others
    behind the same address.
    """
    token = here.tokens.find(text)
    if token is None:
        here.limiter.failed(request.remote_addr or "")
        g.failed = True
        return None, "the token is not known here"
    if token.state != "valid":
        g.failed = True
        return None, f"the token has {'expired' if token.state == 'expired' else 'been revoked'}"
    return Who(token), None


def _check_scope(need: Scope | scopes.Reach, found: Who) -> None:
    if isinstance(need, Scope) and not found.token.may(need):
        raise Forbidden(
            f"this needs a token with the scope {need}; this one has {', '.join(found.token.scopes)}"
        )


def check_csrf() -> None:
    """Raise Forbidden where a page of another site may have sent the request along with the login's cookie."""
    found = who()
    if found is None or found.session is None or request.method in READING:
        return
    # Only such a form is read here: an upload is not, before it is known who sends it.
    field = bodies.form().get(CSRF_FIELD, "") if request.mimetype == bodies.FORM else ""
    sent = request.headers.get(CSRF_HEADER, field)
    if not hmac.compare_digest(sent.encode("utf-8", "surrogatepass"), found.session.csrf.encode()):
        raise Forbidden(f"{CSRF_HEADER} is missing or wrong; load the page again")


def _navigates(request: Request) -> bool:
    """Whether a browser asks for a page to show."""
    return request.method in READING and "text/html" in request.accept_mimetypes.values()


def _log_in() -> Response:
    if request.url_rule and request.url_rule.rule == FRAMED_PAGE and request.headers.get(DEST) == "iframe":
        page = render_template("framed_login.html", address=request.full_path)
        response = make_response(page, HTTPStatus.UNAUTHORIZED)
        response.headers["WWW-Authenticate"] = 'Bearer realm="cbir"'
        return allow_frames(response, access().frame_origins)
    if request.headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none"):
        address = request.full_path if request.query_string else request.path
        return redirect(url_for("login.show", next=address), HTTPStatus.SEE_OTHER)  # type: ignore[return-value]
    # After a link on another site the browser keeps the cookie back, until a page of this site asks: an empty one.
    return Response("", mimetype="text/html", headers={"Refresh": "0"})


def _unauthorized(detail: str, error: str = "") -> Response:
    """RFC 6750, section 3."""
    response = problem(HTTPStatus.UNAUTHORIZED, detail)
    response.headers["WWW-Authenticate"] = 'Bearer realm="cbir"' + (f', error="{error}"' if error else "")
    return response


def _nobody(error: TokensUnreadable) -> Response:
    # Where the file lies is for those who run the service, and not for whoever asks.
    log.error("nobody is let in: %s", error)
    detail = "the service's tokens cannot be read, so it lets nobody in; its log says why"
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, "not-ready")


def too_many(wait: int) -> Response:
    """The answer to an address that failed too often."""
    response = problem(HTTPStatus.TOO_MANY_REQUESTS, f"too many wrong tokens; try again in {wait} seconds")
    response.headers["Retry-After"] = str(wait)
    return response


def _record(response: Response) -> Response:
    """Write the audit log's line, where somebody did something or tried with a wrong token."""
    here = access()
    asked = scopes.asked(request)
    found = who()
    if (
        not here.audit
        or not asked
        or not asked.action
        or (here.required and not found and not g.get("failed"))
    ):
        return response
    if named := (request.view_args or {}).get("image_id"):
        about([named])
    here.audit.write(
        found.token.token_id if found else None,
        request.remote_addr or "",
        asked.action,
        g.get("audit_images", ()),
        response.status_code,
        g.get("audit_job"),
    )
    return response


def _csrf() -> dict[str, str | None]:
    """For templates: what the page's requests must send along in X-CSRF-Token; None where nobody is logged in."""
    found = who()
    return {"csrf": found.session.csrf if found and found.session else None}
