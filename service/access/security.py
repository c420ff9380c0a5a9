"""Checks that keep others from using the service: of settings before it starts, and of every request."""

import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from flask import Flask, Request, Response, current_app, g, request
from werkzeug.exceptions import BadRequest, Forbidden, MisdirectedRequest

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.system.access_rights import Scope
from cbir.system.features import features
from service.access.audit import AuditLog
from service.access.audit_chain import AuditWriter
from service.access.proxies import FORWARDED_BY_UNKNOWN, PATH_PREFIX, PEER, VIA_TRUSTED_PROXY
from service.access.shared_audit import SharedAuditLog
from service.access.token_list import check_rights
from service.access.token_stores import FILE, open_tokens
from service.state.database import StateDatabase, open_state

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors {ancestors}; form-action 'self'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY.format(ancestors="'none'"),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",  # unless the view sets its own
}
STRICT_TRANSPORT = "max-age=31536000"  # browsers use https only, for a year (RFC 6797)
ANY_ADDRESS = ("0.0.0.0", "::")  # listens on all addresses of the machine
HOST_NAMES = "cbir-names"  # key in app.extensions: allowed host names besides loopback names
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
AUDIT_FILE = "audit.jsonl"
AUDIT_KEY_FILE = "audit.key"
AUDIT_IN_DATABASE = "database"


def is_loopback(host: str) -> bool:
    """Return True if `host` is localhost, in 127.0.0.0/8, or ::1."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None


def install(app: Flask, settings: Settings) -> None:
    """Check the requests of `app` and add security headers to its responses, according to `settings`."""
    names = {name.lower() for name in settings.allowed_hosts}
    if settings.host not in ANY_ADDRESS:
        names.add(settings.host.lower())
    app.extensions[HOST_NAMES] = names
    app.before_request(_check)
    app.after_request(_add_headers)


def _check() -> None:
    if "HTTP_HOST" not in request.environ:
        raise BadRequest("the request has no Host header (RFC 9112, section 3.2)")
    name = _host_name(request.host)
    if not is_loopback(name) and name not in current_app.extensions[HOST_NAMES]:
        raise MisdirectedRequest(
            "the service only answers under localhost, 127.0.0.1, [::1] and the host names in its setting "
            "allowed_hosts"
        )
    if request.environ.get(PATH_PREFIX):
        raise MisdirectedRequest(
            "the proxy takes a path away from the address (X-Forwarded-Prefix), but links of the service begin at /: "
            "give it a host name of its own, without a path"
        )
    if _came_through_unknown_proxy(request):
        raise Forbidden(
            "the request came through an unknown proxy on this machine, so its sender may be elsewhere; add the "
            "proxy's address to the setting trusted_proxies, or send the request directly"
        )
    if _is_unencrypted(request):
        raise Forbidden("requests from another machine must use https or come through a trusted proxy")
    if request.method not in SAFE_METHODS and _is_cross_site(request):
        raise Forbidden("the request comes from a page of another site")


def _came_through_unknown_proxy(request: Request) -> bool:
    """Return True if a request seems local, but has the headers of a proxy that is not trusted."""
    environ = request.environ
    return bool(environ.get(FORWARDED_BY_UNKNOWN)) and is_loopback(environ.get(PEER) or "localhost")


def _is_unencrypted(request: Request) -> bool:
    """Return True if a request from another machine could be read on its way."""
    peer = request.environ.get(PEER, "")
    return not (request.is_secure or request.environ.get(VIA_TRUSTED_PROXY) or not peer or is_loopback(peer))


def _host_name(host: str) -> str:
    """Return the name in a Host header without port and brackets; empty if the header is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_cross_site(request: Request) -> bool:
    """Return True if the browser says that a page of another site sent the request."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and origin != f"{request.scheme}://{request.host}"


def allow_frames(response: Response, origins: Sequence[str]) -> Response:
    """Allow pages of `origins` to show `response` in a frame, including with Cross-Origin-Embedder-Policy."""
    if origins:
        policy = CONTENT_SECURITY_POLICY.format(ancestors=" ".join(origins))
        response.headers["Content-Security-Policy"] = policy
        response.headers["Cross-Origin-Embedder-Policy"] = "require-corp"
        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        g.framed = True
    return response


def _add_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        if not (g.get("framed") and name == "X-Frame-Options"):  # cannot list origins; the CSP does
            response.headers.setdefault(name, value)
    if request.is_secure and not is_loopback(_host_name(request.host)):  # other services use that name too
        response.headers.setdefault("Strict-Transport-Security", STRICT_TRANSPORT)
    return response


def tokens_required(settings: Settings) -> bool:
    """Return True if requests need a token: always if other machines or a proxy can reach the service."""
    if not is_loopback(settings.host) or users_log_in(settings):
        return True
    if settings.require_tokens is None:
        return bool(settings.trusted_proxies or settings.allowed_hosts)
    return settings.require_tokens


def users_log_in(settings: Settings) -> bool:
    """Return True if users log in by the hospital's identity, so that no token is needed."""
    return bool(settings.proxy_user_header or settings.oidc_issuer)


def audit_log_place(settings: Settings) -> Path | None:
    """Return the file of the audit log; None if it is in the state database. Raises InvalidInput."""
    if settings.audit_log == AUDIT_IN_DATABASE and not settings.state_database:
        raise InvalidInput("audit_log is database, so state_database must be set too")
    if settings.audit_log == AUDIT_IN_DATABASE or (settings.state_database and not settings.audit_log):
        return None
    return Path(settings.audit_log or settings.state_folder / AUDIT_FILE)


def audit_key_file(settings: Settings) -> Path:
    """Return the file with the key of the audit log in the state database."""
    return settings.audit_key_file or settings.state_folder / AUDIT_KEY_FILE


def has_audit_log(settings: Settings) -> bool:
    """Return whether the settings ask for an audit log."""
    return bool(settings.audit_log or settings.sites or tokens_required(settings))


def open_audit_log(settings: Settings, database: StateDatabase) -> AuditWriter | None:
    """Return the audit log that the settings ask for, if any; raise InvalidInput if its file is not writable."""
    return open_audit_log_of_commands(settings, database) if has_audit_log(settings) else None


def audit_log_folder(settings: Settings) -> Path | None:
    """Return the folder of the audit log; None if there is no log, or it is in the state database."""
    file = audit_log_place(settings) if has_audit_log(settings) else None
    return file.parent if file else None


def open_audit_log_of_commands(settings: Settings, database: StateDatabase) -> AuditWriter:
    """Return the audit log for commands that let something leave, which they do for no one without a line."""
    path = audit_log_place(settings)
    if path is None:
        return SharedAuditLog(database, audit_key_file(settings), settings.audit_log_days)
    return AuditLog(path, settings.audit_log_bytes)


def check_startup(settings: Settings) -> None:
    """Raise InvalidInput, with the remedy, if the service must not start with these settings.

    Raises StateUnavailable if a shared state database has the tokens and cannot be read.
    """
    _check_certificate(settings)
    if not is_loopback(settings.host):
        _check_reachable(settings)
    _check_identity(settings)
    database = open_state(settings)
    if tokens_required(settings) and not users_log_in(settings):
        _check_tokens(settings, database)
    log = open_audit_log(settings, database)
    if log:
        log.open()
        log.close()


def _check_identity(settings: Settings) -> None:
    """Raise InvalidInput if users could not log in, or would have no rights."""
    if settings.proxy_user_header and not settings.trusted_proxies:
        raise InvalidInput("proxy_user_header needs trusted_proxies: the header is believed from these only")
    if settings.proxy_groups_header and not settings.proxy_user_header:
        raise InvalidInput("proxy_groups_header needs proxy_user_header, the header that names the user")
    for feature in features():
        if feature.check_settings:
            feature.load(feature.check_settings)(settings)
    if users_log_in(settings) and settings.require_tokens is False:
        raise InvalidInput("users log in, so require_tokens cannot be false; remove that setting")
    if users_log_in(settings) and not settings.groups:
        raise InvalidInput("users log in, but no group has rights; set [groups.NAME] with scopes")
    for group, rights in settings.groups.items():
        if not rights.scopes:
            raise InvalidInput(f"groups.{group}.scopes: at least one of {', '.join(Scope)} is needed")
        check_rights(rights, f"groups.{group}.where")


def _check_tokens(settings: Settings, database: StateDatabase) -> None:
    """Raise InvalidInput if there is no valid token."""
    if any(token.state == "valid" for token in open_tokens(settings, database).all().values()):
        return
    place = "state_database" if database.shared else settings.state_folder
    in_file = database.shared and (settings.state_folder / FILE).exists()
    copying = f", or copy those of {FILE} with `cbir admin state copy --only-tokens`" if in_file else ""
    raise InvalidInput(
        f"{_reason(settings)} tokens are needed, and {place} has no valid one; "
        f"create one with `cbir admin token create --scope admin`{copying}"
    )


def _check_reachable(settings: Settings) -> None:
    reason = _reason(settings)
    if settings.require_tokens is False:
        raise InvalidInput(f"{reason} require_tokens cannot be false; remove that setting")
    if not settings.tls_certificate and not settings.trusted_proxies:
        raise InvalidInput(
            f"{reason} tokens and images must be encrypted: set tls_certificate and tls_key, or set "
            "trusted_proxies to the address of a proxy that encrypts"
        )
    if settings.host in ANY_ADDRESS and not settings.allowed_hosts:
        raise InvalidInput(f"{reason} allowed_hosts must list the host names under which clients reach it")


def _reason(settings: Settings) -> str:
    if is_loopback(settings.host):
        return "with require_tokens, trusted_proxies or allowed_hosts set,"
    return f"--host {settings.host} is not a loopback address, so"


def _check_certificate(settings: Settings) -> None:
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise InvalidInput("tls_certificate and tls_key must be set together; one is missing")
    if settings.tls_certificate and settings.tls_key:
        for path in (settings.tls_certificate, settings.tls_key):
            if not path.is_file():
                raise InvalidInput(f"{path}, the file of tls_certificate or tls_key, does not exist")
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # An empty password, so that an encrypted key raises an error instead of prompting.
            context.load_cert_chain(settings.tls_certificate, settings.tls_key, password="")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not PEM"
            raise InvalidInput(
                f"tls_certificate {settings.tls_certificate} and tls_key {settings.tls_key} cannot be used: {reason}"
            ) from error
