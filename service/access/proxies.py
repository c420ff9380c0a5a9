"""Client address, scheme and host of requests that arrive through trusted proxies."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PEER = "cbir.peer"  # address at the other end of the connection
VIA_TRUSTED_PROXY = "cbir.proxied"  # True if the peer is one of settings.trusted_proxies
PATH_PREFIX = "cbir.prefix"  # path before that of the request, which a trusted proxy has taken away
USER, GROUPS = "cbir.user", "cbir.groups"  # as a trusted proxy has named them
FORWARDED_BY_UNKNOWN = "cbir.passed-on"  # True if headers reveal a proxy that is not trusted
FORWARDED = "HTTP_X_FORWARDED_"
OTHER_PROXY_HEADERS = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")
MAX_HOPS = 32

Address = IPv4Address | IPv6Address


class TrustedProxies:
    """WSGI middleware that applies X-Forwarded-For, -Proto and -Host of trusted proxies only, and notes -Prefix.

    The client is the last address in X-Forwarded-For that is not a trusted proxy; the addresses before it are
    the client's own claims. For -Proto and -Host the last value counts, which the nearest proxy wrote. The
    headers are then removed, so that no other code can rely on them. From other peers, their presence only
    shows that the request may come from further away than its connection. The headers that name a user and its
    groups are treated in the same way.

    Parameters
    ----------
    app : WSGI application
        Application that handles the requests.
    trusted : sequence of str
        Networks of the trusted proxies.
    user_header, groups_header : str or None
        Headers of the user and its groups; None if the proxies authenticate no users.
    """

    def __init__(
        self,
        app: "WSGIApplication",
        trusted: Sequence[str],
        user_header: str | None = None,
        groups_header: str | None = None,
    ) -> None:
        self.app = app
        self.networks = [ip_network(network) for network in trusted]
        self.identity_headers = {_wsgi_name(user_header): USER, _wsgi_name(groups_header): GROUPS}

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        peer = parse_address(environ.get("REMOTE_ADDR", ""))
        environ[PEER] = environ["REMOTE_ADDR"] = str(peer or "")
        environ[VIA_TRUSTED_PROXY] = self._trusts(peer)
        if environ[VIA_TRUSTED_PROXY]:
            self._apply_headers(environ)
        headers = [name for name in environ if name.startswith(FORWARDED) or name in OTHER_PROXY_HEADERS]
        environ[FORWARDED_BY_UNKNOWN] = bool(headers) and not environ[VIA_TRUSTED_PROXY]
        for name in headers:
            del environ[name]
        for name, key in self.identity_headers.items():
            value = environ.pop(name, None)
            if value is not None and environ[VIA_TRUSTED_PROXY]:
                environ[key] = _decode(value)
        return self.app(environ, start_response)

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self.networks)

    def _apply_headers(self, environ: "WSGIEnvironment") -> None:
        hops = environ.get(f"{FORWARDED}FOR", "").split(",")[-MAX_HOPS:]
        for hop in reversed(hops):
            address = parse_address(hop.strip())
            if address is None:
                break
            environ["REMOTE_ADDR"] = str(address)
            if not self._trusts(address):
                break
        protocol = _last_value(environ, "PROTO").lower()
        if protocol in ("http", "https"):
            environ["wsgi.url_scheme"] = protocol
        if host := _last_value(environ, "HOST"):
            environ["HTTP_HOST"] = host
        environ[PATH_PREFIX] = _last_value(environ, "PREFIX").strip("/")


def _wsgi_name(header: str | None) -> str:
    return f"HTTP_{header.upper().replace('-', '_')}" if header else ""


def _decode(value: str) -> str:
    """Decode a header as UTF-8, which proxies write; WSGI hands its bytes over as Latin-1."""
    return value.encode("latin-1", "replace").decode("utf-8", "replace").strip()


def _last_value(environ: "WSGIEnvironment", name: str) -> str:
    value: str = environ.get(FORWARDED + name, "")
    return value.rpartition(",")[2].strip()


def parse_address(text: str) -> Address | None:
    """Return the IP address in `text`, or None if there is none.

    Brackets and a port are allowed; an IPv4-mapped IPv6 address becomes IPv4.
    """
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
