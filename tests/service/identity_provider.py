"""A small OpenID Connect provider on this machine: one user, who is always logged in."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, SECRET = "cbir", "client secret/+:"
# Rights of its groups, for the settings.
GROUPS: dict[str, Any] = {
    "chief": {"scopes": ["admin"]},
    "radiology": {"scopes": ["search", "annotate"], "where": ["label=even"]},
    "students": {"scopes": ["search"], "collections": ["none"]},
}


@cache
def _first_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "first"})


class Provider(ThreadingHTTPServer):
    """The provider. Tests change `claims` (of the user), `overrides` (of each ID token) and what it publishes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issuer = f"http://127.0.0.1:{self.server_address[1]}/realm"
        self.keys = [_first_key()]
        self.published: Any = None  # in place of `keys`
        self.signing: Any = None  # another key to sign with
        self.header = {"alg": "RS256"}
        self.claims: dict[str, Any] = {"preferred_username": "jdoe", "groups": ["staff", "radiology"]}
        self.overrides: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        self.refused: list[str] = []
        self.failing = False  # its token endpoint
        self.coding = ""  # that its answers claim to have
        self.unsent = 0  # bytes that its answers announce and lack

    def id_token(self, nonce: str) -> str:
        """Return a signed ID token."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "4711",
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": nonce,
        }
        claims = {
            name: value
            for name, value in (claims | self.claims | self.overrides).items()
            if value is not None
        }
        key = self.signing or self.keys[-1]
        header = {"kid": key.kid} | self.header if key.kid else self.header
        return jwt.encode(header, claims, key, algorithms=[self.header["alg"]])


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, *_: Any) -> None:
        """Write nothing."""

    def do_GET(self) -> None:
        provider, address = self.server, urlsplit(self.path)
        provider.asked.append(address.path)
        if address.path == "/realm/.well-known/openid-configuration":
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            metadata = {name: f"{provider.issuer}/{path}" for name, path in names.items()}
            self._answer({"issuer": provider.issuer} | metadata | provider.metadata)
        elif address.path == "/realm/keys":
            keys = KeySet(provider.keys).as_dict(private=False)
            self._answer(keys if provider.published is None else provider.published)
        elif address.path == "/realm/authorize":
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            code = f"code-{len(provider.codes)}"
            provider.codes[code] = query
            back = f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
            self.send_response(302)
            self.send_header("Location", back)
            self.end_headers()
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        provider = self.server
        provider.asked.append(self.path)
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        sent = {name: values[0] for name, values in form.items()}
        begun = provider.codes.pop(sent.get("code", ""), None)
        if provider.failing:
            self._answer({"error": "temporarily_unavailable"}, 503)
        elif reason := self._refusal(begun, sent):
            provider.refused.append(reason)
            self._answer({"error": "invalid_grant"}, 400)
        else:
            assert begun is not None
            self._answer(
                {"access_token": "a", "token_type": "Bearer", "id_token": provider.id_token(begun["nonce"])}
            )

    def _refusal(self, begun: dict[str, str] | None, sent: dict[str, str]) -> str | None:
        """Return why a code is not exchanged (RFC 6749, 4.1.3; RFC 7636, 4.6)."""
        if begun is None:
            return "unknown code"
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != begun.get("code_challenge"):
            return "wrong verifier"
        if begun.get("code_challenge_method") != "S256" or sent.get("redirect_uri") != begun["redirect_uri"]:
            return "another request"
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        user, _, secret = base64.b64decode(given).decode().partition(":")
        return None if (scheme, user, secret) == ("Basic", CLIENT, SECRET) else "wrong client"

    def _answer(self, content: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) + self.server.unsent))
        if self.server.coding:
            self.send_header("Content-Encoding", self.server.coding)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running() -> Iterator[Provider]:
    """Run a provider."""
    provider = Provider()
    thread = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield provider
    finally:
        provider.shutdown()
        thread.join()
        provider.server_close()
