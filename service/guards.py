"""What every request must satisfy and every response says, so that other sites cannot use the service."""

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from flask import Flask, Request, Response, current_app, g, request
from werkzeug.exceptions import BadRequest, Forbidden, MisdirectedRequest

from cbir.settings import Settings
from service.access.proxies import PASSED_ON, PEER, PROXIED

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
    "Cache-Control": "no-store",  # unless the view said otherwise
}
ANY_ADDRESS = ("0.0.0.0", "::")  # to listen on all of a machine's
NAMES = "cbir-names"  # in the app's extensions: the names it is asked under, besides this machine's own
READING = {"GET", "HEAD", "OPTIONS"}


def is_loopback(host: str) -> bool:
    """Whether a host name means this machine only: localhost, 127.0.0.0/8 or ::1."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None


def install(app: Flask, settings: Settings) -> None:
    """Check the requests of `app` and add the headers to its responses."""
    names = {name.lower() for name in settings.allowed_hosts}
    if settings.host not in ANY_ADDRESS:
        names.add(settings.host.lower())
    app.extensions[NAMES] = names
    app.before_request(_check)
    app.after_request(_add_headers)


def _check() -> None:
    if "HTTP_HOST" not in request.environ:
        raise BadRequest("the request names no Host (RFC 9112, section 3.2)")
    name = _name(request.host)
    if not is_loopback(name) and name not in current_app.extensions[NAMES]:
        raise MisdirectedRequest(
            "the service answers to localhost, 127.0.0.1, [::1] and the names in its setting allowed_hosts only, "
            "so that no other site's name leads to it"
        )
    if _is_passed_on(request):
        raise Forbidden(
            "the request came through a proxy on this machine that the service does not know of, so whoever sent it "
            "may be elsewhere; name the proxy's address in the setting trusted_proxies, or ask without it"
        )
    if _in_the_clear(request):
        raise Forbidden("from another machine the service is asked over https or through its proxy only")
    if request.method not in READING and _from_elsewhere(request):
        raise Forbidden("the request comes from a page of another site")


def _is_passed_on(request: Request) -> bool:
    """Whether a request looks like one of this machine's own, but an unknown proxy says that it passes it on."""
    environ = request.environ
    return bool(environ.get(PASSED_ON)) and is_loopback(environ.get(PEER) or "localhost")


def _in_the_clear(request: Request) -> bool:
    """Whether what is sent can be read on its way from another machine."""
    peer = request.environ.get(PEER, "")
    return not (request.is_secure or request.environ.get(PROXIED) or not peer or is_loopback(peer))


def _name(host: str) -> str:
    """The name in a Host header, without port and brackets; empty where it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _from_elsewhere(request: Request) -> bool:
    """What a browser says about the page a request comes from; other programs say nothing."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and origin != f"{request.scheme}://{request.host}"


def allow_frames(response: Response, origins: Sequence[str]) -> Response:
    """Let pages of these origins show a response in a frame, those with Cross-Origin-Embedder-Policy too."""
    if origins:
        policy = CONTENT_SECURITY_POLICY.format(ancestors=" ".join(origins))
        response.headers["Content-Security-Policy"] = policy
        response.headers["Cross-Origin-Embedder-Policy"] = "require-corp"
        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        g.framed = True
    return response


def _add_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        if not (g.get("framed") and name == "X-Frame-Options"):  # it cannot name origins, the policy does
            response.headers.setdefault(name, value)
    return response
