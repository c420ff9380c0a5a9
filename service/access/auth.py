"""Authenticate and authorise every request before its view runs."""

import hmac
import logging
from http import HTTPStatus
from typing import NamedTuple

from flask import Flask, Response, current_app, g, make_response, redirect, render_template, request, url_for
from werkzeug.exceptions import Forbidden

from cbir.settings import Settings
from service.access import scopes, startup_checks
from service.access.audit import log_images
from service.access.limiter import Limiter
from service.access.proxies import PEER, VIA_TRUSTED_PROXY, TrustedProxies
from service.access.security import SAFE_METHODS, allow_frames, is_loopback
from service.access.sessions import Session, Sessions
from service.access.tokens import Scope, Token, TokenStore, TokensUnreadable
from service.http import request_body
from service.http.problems import problem_response

EXTENSION = "cbir-access"
CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf"
FRAMED_PAGE, DEST = "/similar", "Sec-Fetch-Dest"

log = logging.getLogger(__name__)


class Caller(NamedTuple):
    """Sender of a request; `session` is None if the request carried its token itself."""

    token: Token
    session: Session | None = None


class AccessControl:
    """Tokens, sessions, failed attempts and audit log of one app."""

    def __init__(self, settings: Settings) -> None:
        self.required = startup_checks.tokens_required(settings)
        self.tokens = TokenStore(settings.state_folder)
        self.sessions = Sessions()
        self.limiter = Limiter(settings.failed_attempts, settings.failed_attempts_seconds)
        self.audit = startup_checks.open_audit_log(settings)
        self.frame_origins = settings.frame_origins


def access_control() -> AccessControl:
    """Return the access control of the current app."""
    control: AccessControl = current_app.extensions[EXTENSION]
    return control


def current_caller() -> Caller | None:
    """Return the caller of the current request; None if it is not authenticated."""
    caller: Caller | None = g.get("caller")
    return caller


def actor_name() -> str:
    """Return the name under which the history records a change of the current request.

    It is the token's id, which identifies no person by itself, or "service" if no token was needed.
    """
    caller = current_caller()
    return f"token {caller.token.token_id}" if caller else "service"


def install(app: Flask, settings: Settings) -> None:
    """Check every request of `app` against `settings`; raise InvalidInput if the audit log is not writable."""
    app.extensions[EXTENSION] = AccessControl(settings)
    app.wsgi_app = TrustedProxies(app.wsgi_app, settings.trusted_proxies)  # type: ignore[method-assign]
    app.register_error_handler(TokensUnreadable, _tokens_unreadable)
    app.before_request(_authorise)
    app.after_request(_write_audit_line)
    app.context_processor(_csrf_for_templates)


def cookie_name() -> str:
    """Return the name of the login cookie; the __Host- prefix ties it to this host and https."""
    return "__Host-cbir" if request.is_secure else "cbir"


def _authorise() -> Response | None:
    control = access_control()
    if not control.required:
        _check_is_this_machine()
        return None
    rule = scopes.rule_of_request(request)
    if rule is None:
        log.error("%s %s has no entry in service/access/scopes.py", request.method, request.url_rule)
        raise Forbidden("no token gives access to this address")
    g.caller = _caller_of_cookie(control)
    if rule.need is scopes.OpenTo.anyone:
        return None
    if text := _bearer_token():
        if wait := control.limiter.seconds_to_wait(request.remote_addr or ""):
            return too_many_failures(wait)
        g.caller, problem_text = identify(control, text)
        if problem_text:
            return _unauthorized(problem_text, "invalid_token")
    if g.caller is None:
        return (
            _ask_to_log_in()
            if _is_navigation()
            else _unauthorized("a token is needed: send Authorization: Bearer TOKEN, or log in at /login")
        )
    _check_scope(rule.need, g.caller)
    check_csrf()
    return None


def is_anonymous() -> bool:
    """Return True if a request to an address that is open to everyone has shown no valid token.

    A wrong token does not make such an address refuse its answer, but it counts as a failed attempt.
    """
    control, text = access_control(), _bearer_token()
    if not control.required:
        return False
    if current_caller() is None and text and not control.limiter.seconds_to_wait(request.remote_addr or ""):
        g.caller, _ = identify(control, text)
    return current_caller() is None


def _bearer_token() -> str | None:
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def _check_is_this_machine() -> None:
    # The app may run under another server, on an address that the settings do not know.
    peer = request.environ.get(PEER) or "localhost"
    if not is_loopback(peer) and not request.environ.get(VIA_TRUSTED_PROXY):
        raise Forbidden("without tokens, the service only answers requests from this machine")


def _caller_of_cookie(control: AccessControl) -> Caller | None:
    session = control.sessions.get(request.cookies.get(cookie_name(), ""))
    token = control.tokens.get(session.token_id) if session else None
    return Caller(token, session) if token else None


def identify(control: AccessControl, text: str) -> tuple[Caller | None, str | None]:
    """Return the caller whose token is `text`, or None and the reason for the refusal.

    An unknown token counts as a failed attempt in `control`. An expired or revoked token does not: its holder
    is not guessing, and must not lock out everyone else behind the same address.
    """
    token = control.tokens.find(text)
    if token is None:
        control.limiter.record_failure(request.remote_addr or "")
        g.failed = True
        return None, "the token is unknown"
    if token.state != "valid":
        g.failed = True
        return None, f"the token has {'expired' if token.state == 'expired' else 'been revoked'}"
    return Caller(token), None


def _check_scope(need: Scope | scopes.OpenTo, caller: Caller) -> None:
    if isinstance(need, Scope) and not caller.token.allows(need):
        raise Forbidden(
            f"this request needs a token with the scope {need}; this token has {', '.join(caller.token.scopes)}"
        )


def check_csrf() -> None:
    """Raise Forbidden if a page of another site may have sent the request along with the login cookie."""
    caller = current_caller()
    if caller is None or caller.session is None or request.method in SAFE_METHODS:
        return
    # Only a plain form is parsed at this point; an upload must not be read before its sender is known.
    is_form = request.mimetype == request_body.FORM
    field = request_body.read_form().get(CSRF_FIELD, "") if is_form else ""
    sent = request.headers.get(CSRF_HEADER, field)
    if not hmac.compare_digest(sent.encode("utf-8", "surrogatepass"), caller.session.csrf.encode()):
        raise Forbidden(f"{CSRF_HEADER} is missing or wrong; reload the page")


def _is_navigation() -> bool:
    """Return True if a browser requests a page to show."""
    return request.method in SAFE_METHODS and "text/html" in request.accept_mimetypes.values()


def _ask_to_log_in() -> Response:
    if request.url_rule and request.url_rule.rule == FRAMED_PAGE and request.headers.get(DEST) == "iframe":
        page = render_template("framed_login.html", address=request.full_path)
        response = make_response(page, HTTPStatus.UNAUTHORIZED)
        response.headers["WWW-Authenticate"] = 'Bearer realm="cbir"'
        return allow_frames(response, access_control().frame_origins)
    if request.headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none"):
        address = request.full_path if request.query_string else request.path
        return redirect(url_for("login.show", next=address), HTTPStatus.SEE_OTHER)  # type: ignore[return-value]
    # After a link on another site the browser withholds the SameSite cookie until a page of this site sends
    # the request: an empty page that reloads itself.
    return Response("", mimetype="text/html", headers={"Refresh": "0"})


def _unauthorized(detail: str, error: str = "") -> Response:
    # RFC 6750, section 3.
    response = problem_response(HTTPStatus.UNAUTHORIZED, detail)
    response.headers["WWW-Authenticate"] = 'Bearer realm="cbir"' + (f', error="{error}"' if error else "")
    return response


def _tokens_unreadable(error: TokensUnreadable) -> Response:
    # The path of the file is for the operator's log only, not for the client.
    log.error("all requests are refused: %s", error)
    detail = "the service cannot read its tokens, so it refuses all requests; see its log"
    return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, detail, "not-ready")


def too_many_failures(wait: int) -> Response:
    """Return the response for an address that failed too often and has to wait `wait` seconds."""
    response = problem_response(
        HTTPStatus.TOO_MANY_REQUESTS, f"too many wrong tokens; try again in {wait} seconds"
    )
    response.headers["Retry-After"] = str(wait)
    return response


def _write_audit_line(response: Response) -> Response:
    """Log what an authenticated caller did, and attempts with a wrong token."""
    control = access_control()
    rule = scopes.rule_of_request(request)
    caller = current_caller()
    if not control.audit or not rule or not rule.action:
        return response
    if control.required and not caller and not g.get("failed"):
        return response
    if image_id := (request.view_args or {}).get("image_id"):
        log_images([image_id])
    control.audit.write(
        caller.token.token_id if caller else None,
        request.remote_addr or "",
        rule.action,
        g.get("audit_images", ()),
        response.status_code,
        g.get("audit_job"),
    )
    return response


def _csrf_for_templates() -> dict[str, str | None]:
    """Return the value that the page's requests send as X-CSRF-Token; None without a login."""
    caller = current_caller()
    return {"csrf": caller.session.csrf if caller and caller.session else None}
