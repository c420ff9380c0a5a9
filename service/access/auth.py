"""Authenticate and authorise every request before its view runs."""

import hmac
import logging
from http import HTTPStatus

from flask import Flask, Response, current_app, g, make_response, redirect, render_template, request, url_for
from werkzeug.exceptions import Forbidden

from cbir.settings import Settings
from cbir.system.access_rights import ALL_RIGHTS, Scope
from service.access import scopes, security, sessions
from service.access.audit import log_images
from service.access.caller import (
    Caller,
    current_caller,
    current_rights,
    hide_private_details,
    set_rights,
)
from service.access.proxies import GROUPS, PEER, USER, VIA_TRUSTED_PROXY, TrustedProxies
from service.access.rate_limits import Limiter, PatientRate, RequestRate
from service.access.security import SAFE_METHODS, allow_frames, is_loopback
from service.access.sessions import Sessions, User
from service.access.token_list import TokensUnreadable, rights_of_groups, valid_user_name
from service.access.token_stores import LastUses, open_tokens
from service.http import request_bodies
from service.http.problems import TooManyRequests, problem_response
from service.state.database import EXTENSION as STATE
from service.state.database import StateDatabase
from service.state.schema import StateUnavailable
from service.state.server_answers import PartCheck

EXTENSION = "cbir-access"
CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf"
AUDIT_SECONDS = 2.0  # for which the answer holds whether the audit log can be written
LOGGED_IN_PAGE = "/login/done"
DEST = "Sec-Fetch-Dest"

log = logging.getLogger(__name__)


class AccessControl:
    """Tokens, sessions, rights of groups, limits and audit log of one app."""

    def __init__(self, settings: Settings, database: StateDatabase) -> None:
        self.required = security.tokens_required(settings)
        self.tokens = open_tokens(settings, database)
        self.last_uses = LastUses(database)
        self.sessions = Sessions(database)
        self.groups = settings.groups
        self.account_login: str | None = None  # endpoint at which users of the hospital begin to log in
        self.limiter = Limiter(settings.failed_attempts, settings.failed_attempts_seconds, database=database)
        self.requests = RequestRate(settings.requests_per_minute, database=database)
        self.new_patients = PatientRate(settings.patients_per_hour, database=database)
        self.identifiers = PatientRate(settings.identifiers_per_hour, database=database, name="identifiers")
        self.audit = security.open_audit_log(settings, database)
        self.audit_part = PartCheck("audit log", self.audit.check, AUDIT_SECONDS) if self.audit else None
        self.audit_required = settings.audit_failure == "closed"
        self.frame_origins = settings.frame_origins

    def audit_is_down(self) -> bool:
        """Return whether the next line of the audit log could not be written; asked in the background."""
        if not self.audit or not self.audit_part:
            return False
        return self.audit_part.is_down() or self.audit.failed


def access_control() -> AccessControl:
    """Return the access control of the current app."""
    control: AccessControl = current_app.extensions[EXTENSION]
    return control


def install(app: Flask, settings: Settings) -> None:
    """Check every request of `app` against `settings`; raise InvalidInput if the audit log is not writable.

    The state database must be installed.
    """
    app.extensions[EXTENSION] = AccessControl(settings, app.extensions[STATE])
    app.wsgi_app = TrustedProxies(  # type: ignore[method-assign]
        app.wsgi_app, settings.trusted_proxies, settings.proxy_user_header, settings.proxy_groups_header
    )
    app.register_error_handler(TokensUnreadable, _tokens_unreadable)
    hide_private_details(app)
    app.before_request(_authorise)
    app.after_request(_write_audit_line)
    app.context_processor(_login_for_templates)


def cookie_name() -> str:
    """Return the name of the login cookie; the __Host- prefix ties it to this host and https."""
    return "__Host-cbir" if request.is_secure else "cbir"


def _authorise() -> Response | None:
    control = access_control()
    if not control.required:
        _check_is_this_machine()
        _check_asks_no_site()
        set_rights(ALL_RIGHTS)
        return _refuse_without_audit(control)
    rule = scopes.rule_of_request(request)
    if rule is None:
        log.error("%s %s has no access rule", request.method, request.url_rule)
        raise Forbidden("no token gives access to this address")
    try:
        g.caller = _caller_of_cookie(control)
    except StateUnavailable:
        if rule.need is not scopes.OpenTo.anyone and not _bearer_token():
            raise
    if rule.need is scopes.OpenTo.anyone:
        return None
    if text := _bearer_token():
        check_failures()
        g.caller, problem_text = identify(control, text)
        if problem_text:
            return unauthorized(problem_text, ', error="invalid_token"')
    g.caller = g.caller or _caller_of_proxy(control) or _caller_of_ticket(control, rule)
    if g.caller is None:
        return (
            _ask_to_log_in()
            if _is_navigation()
            else unauthorized("a token is needed: send Authorization: Bearer TOKEN, or log in at /login")
        )
    try:
        count_request()
    except TooManyRequests:
        g.not_logged = True  # a line each would fill the audit log
        raise
    if g.caller.token:
        control.last_uses.note(g.caller.token.token_id)
    set_rights(g.caller.rights)
    _check_scope(rule, g.caller)
    check_csrf()
    return _refuse_without_audit(control)


def count_request() -> None:
    """Count a request of the caller, or one more for one that does the work of several; raises TooManyRequests."""
    control, caller = access_control(), current_caller()
    if caller and (wait := control.requests.seconds_to_wait(caller.actor)):
        text = f"more than {control.requests.per_minute} requests per minute; try again in {wait} seconds"
        raise TooManyRequests(text, retry_after=wait)


def _refuse_without_audit(control: AccessControl) -> Response | None:
    """Refuse the request if it must be logged, and the audit log could not be written last time and still cannot."""
    rule = scopes.rule_of_request(request)
    if control.audit and control.audit_required and rule and rule.action and not control.audit.is_writable():
        g.not_logged = True
        return audit_unwritable()
    return None


def audit_unwritable() -> Response:
    """Return the answer of a service that refuses requests since it cannot log them."""
    detail = "the audit log cannot be written, so the service refuses requests; see its log"
    return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, detail, "not-ready")


def is_anonymous() -> bool:
    """Return True if a request to an address that is open to everyone has shown no valid token.

    A wrong token does not make such an address refuse its answer, but it counts as a failed attempt.
    """
    control, text = access_control(), _bearer_token()
    if not control.required:
        return False
    if current_caller() is None and text and not control.limiter.seconds_to_wait(request.remote_addr or ""):
        g.caller, _ = identify(control, text)
    caller = current_caller()
    if caller:
        set_rights(caller.rights)
    return caller is None


def _bearer_token() -> str | None:
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def _check_is_this_machine() -> None:
    # The app may run under another server, on an address that the settings do not know.
    peer = request.environ.get(PEER) or "localhost"
    if not is_loopback(peer) and not request.environ.get(VIA_TRUSTED_PROXY):
        raise Forbidden("without tokens, the service only answers requests from this machine")


def _check_asks_no_site() -> None:
    # A proxy on this machine may pass on what other services ask: without tokens nobody would know who it was.
    rule = scopes.rule_of_request(request)
    if rule and rule.need is Scope.federate:
        raise Forbidden("other services are answered by tokens alone: set require_tokens = true")


def _caller_of_cookie(control: AccessControl) -> Caller | None:
    session = control.sessions.get(request.cookies.get(cookie_name(), ""))
    if session is None:
        return None
    if isinstance(session.subject, User):
        rights = rights_of_groups(control.groups, session.subject.groups)
        return Caller(rights, user=session.subject.name, session=session) if rights else None
    token = control.tokens.get(session.subject)
    return Caller(token, token, session=session) if token else None


def _caller_of_proxy(control: AccessControl) -> Caller | None:
    """Return the user whom a trusted proxy has named; raises Forbidden if that user has no rights."""
    name = request.environ.get(USER, "")
    if not name:
        return None
    if not valid_user_name(name):
        raise Forbidden("the proxy names a user that is longer than 100 characters or not printable")
    groups = [group.strip() for group in request.environ.get(GROUPS, "").split(",")]
    rights = rights_of_groups(control.groups, groups)
    if rights is None:
        raise Forbidden("your user is in none of the groups that have rights here; ask the operator")
    return Caller(rights, user=name)


def _caller_of_ticket(control: AccessControl, rule: scopes.AccessRule) -> Caller | None:
    """Return the holder of the token that got the ticket of the request, if its address takes tickets."""
    if not rule.ticket:
        return None
    token_id = sessions.ticket_token(request.args.get("image", ""))
    token = control.tokens.get(token_id) if token_id else None
    return Caller(token, token) if token else None


def identify(control: AccessControl, text: str) -> tuple[Caller | None, str | None]:
    """Return the caller whose token is `text`, or None and the reason for the refusal.

    An unknown token counts as a failed attempt in `control`. An expired or revoked token does not: its holder
    is not guessing, and must not lock out everyone else behind the same address.
    """
    token = control.tokens.find(text)
    if token is None:
        control.limiter.record_failure(request.remote_addr or "")
        g.failed = g.unknown_token = True
        return None, "the token is unknown"
    if token.state != "valid":
        g.failed = True
        return None, f"the token has {'expired' if token.state == 'expired' else 'been revoked'}"
    return Caller(token, token), None


def _check_scope(rule: scopes.AccessRule, caller: Caller) -> None:
    need = rule.need
    if isinstance(need, Scope) and not caller.rights.allows(need):
        raise Forbidden(
            f"this request needs a token with the scope {need}; this token has {', '.join(caller.rights.scopes)}"
        )
    if (rule.unlimited or need is scopes.OpenTo.unlimited_token) and caller.rights.limited:
        raise Forbidden(
            "this address tells about all collections, and this token is limited to a part of them"
        )


def check_csrf() -> None:
    """Raise Forbidden if a page of another site may have sent the request along with the login cookie."""
    caller = current_caller()
    if caller is None or caller.session is None or request.method in SAFE_METHODS:
        return
    # Only a plain form is parsed at this point; an upload must not be read before its sender is known.
    is_form = request.mimetype == request_bodies.FORM
    field = request_bodies.read_form().get(CSRF_FIELD, "") if is_form else ""
    sent = request.headers.get(CSRF_HEADER, field)
    if not hmac.compare_digest(sent.encode("utf-8", "surrogatepass"), caller.session.csrf.encode()):
        raise Forbidden(f"{CSRF_HEADER} is missing or wrong; reload the page")


def _is_navigation() -> bool:
    """Return True if a browser requests a page to show."""
    return request.method in SAFE_METHODS and "text/html" in request.accept_mimetypes.values()


def _ask_to_log_in() -> Response:
    rule = scopes.rule_of_request(request)
    if rule and rule.framed and request.headers.get(DEST) == "iframe":
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


def unauthorized(detail: str, error: str = "") -> Response:
    """Return the answer to a caller without a valid token; `error`: further parameter of RFC 6750, section 3."""
    response = problem_response(HTTPStatus.UNAUTHORIZED, detail)
    response.headers["WWW-Authenticate"] = f'Bearer realm="cbir"{error}'
    return response


def _tokens_unreadable(error: TokensUnreadable) -> Response:
    # The path of the file is for the operator's log only, not for the client.
    log.error("all requests are refused: %s", error)
    detail = "the service cannot read its tokens, so it refuses all requests; see its log"
    return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, detail, "not-ready")


def check_failures() -> None:
    """Raise TooManyRequests if the address of the request has sent too many wrong tokens."""
    if wait := access_control().limiter.seconds_to_wait(request.remote_addr or ""):
        raise TooManyRequests(f"too many wrong tokens; try again in {wait} seconds", retry_after=wait)


def _action_to_log() -> str | None:
    rule = scopes.rule_of_request(request)
    if g.get("not_logged"):
        return None
    # Unknown tokens may be guesses, so they are logged at every address.
    return (rule and rule.action) or ("authenticate" if g.get("unknown_token") else None)


def _write_audit_line(response: Response) -> Response:
    """Log what an authenticated caller did, and attempts with a wrong token."""
    control, caller, action = access_control(), current_caller(), _action_to_log()
    if not control.audit or not action:
        return response
    if control.required and not caller and not g.get("failed"):
        return response
    if image_id := (request.view_args or {}).get("image_id"):
        log_images([image_id])
    written = control.audit.write(
        caller.token.token_id if caller and caller.token else None,
        request.remote_addr or "",
        action,
        g.get("audit_images", ()),
        response.status_code,
        user=caller.user if caller else None,
        **g.get("audit_fields", {}),
    )
    if not written and control.audit_required:
        return audit_unwritable()
    return response


def _login_for_templates() -> dict[str, str | bool | None]:
    """Return what requests of the page send as X-CSRF-Token, None without a login, and where to log in and run it."""
    caller, rights = current_caller(), current_rights()
    runs = rights is not None and rights.allows(Scope.admin) and not rights.limited
    account_login = access_control().account_login
    return {
        "csrf": caller.session.csrf if caller and caller.session else None,
        "may_administer": runs and scopes.rule_of_address(current_app, "GET", "/admin") is not None,
        "account_login": url_for(account_login, next=LOGGED_IN_PAGE) if account_login else None,
    }
