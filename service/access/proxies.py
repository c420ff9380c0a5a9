"""Who a request comes from, where a proxy stands between."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PEER = "cbir.peer"  # address at the other end of the connection
PROXIED = "cbir.proxied"  # whether that is a proxy of the settings
PASSED_ON = "cbir.passed-on"  # whether headers say that a proxy which is not of the settings stands between
FORWARDED = "HTTP_X_FORWARDED_"
SIGNS = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")  # of a proxy, besides FORWARDED
MOST_HOPS = 32

Address = IPv4Address | IPv6Address


class Proxies:
    """WSGI middleware: believes X-Forwarded-For, -Proto and -Host of the trusted proxies, and of nobody else.

    The client is the last address of X-Forwarded-For that is not itself a trusted proxy: those before it are
    what the client says. Of -Proto and -Host the last value counts, which the nearest proxy wrote. The headers
    are removed afterwards, so that nothing else can believe them. Those of other peers say one thing only: that
    the request may come from further away than its connection does.
    """

    def __init__(self, app: "WSGIApplication", trusted: Sequence[str]) -> None:
        self.app = app
        self.networks = [ip_network(network) for network in trusted]

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        peer = parse(environ.get("REMOTE_ADDR", ""))
        environ[PEER] = environ["REMOTE_ADDR"] = str(peer or "")
        environ[PROXIED] = self._trusts(peer)
        if environ[PROXIED]:
            self._believe(environ)
        signs = [name for name in environ if name.startswith(FORWARDED) or name in SIGNS]
        environ[PASSED_ON] = bool(signs) and not environ[PROXIED]
        for name in signs:
            del environ[name]
        return self.app(environ, start_response)

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self.networks)

    def _believe(self, environ: "WSGIEnvironment") -> None:
        hops = environ.get(f"{FORWARDED}FOR", "").split(",")[-MOST_HOPS:]
        for hop in reversed(hops):
            address = parse(hop.strip())
            if address is None:
                break
            environ["REMOTE_ADDR"] = str(address)
            if not self._trusts(address):
                break
        protocol = _last(environ, "PROTO").lower()
        if protocol in ("http", "https"):
            environ["wsgi.url_scheme"] = protocol
        if host := _last(environ, "HOST"):
            environ["HTTP_HOST"] = host


def _last(environ: "WSGIEnvironment", name: str) -> str:
    value: str = environ.get(FORWARDED + name, "")
    return value.rpartition(",")[2].strip()


def parse(text: str) -> Address | None:
    """An address, which may stand in brackets or with a port; IPv4 within IPv6 is IPv4. None for other text."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
