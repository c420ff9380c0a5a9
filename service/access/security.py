"""Checks on every request and headers on every response that keep other sites from using the service."""

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from flask import Flask, Request, Response, current_app, g, request
from werkzeug.exceptions import BadRequest, Forbidden, MisdirectedRequest

from cbir.settings import Settings
from service.access.proxies import FORWARDED_BY_UNKNOWN, PATH_PREFIX, PEER, VIA_TRUSTED_PROXY

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
