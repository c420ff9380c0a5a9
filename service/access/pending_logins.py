"""Logins at an identity provider that have begun in a browser."""

import hmac
import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

LIFETIME_SECONDS = 600
MAX_PENDING = 10_000


class PendingLogin(NamedTuple):
    """Login that has begun in a browser. next: path of this service to show afterwards."""

    state: str
    nonce: str
    verifier: str
    next: str
    ends: float


class PendingLogins:
    """Logins that have begun, by the cookie of the browser; beyond 10,000, the oldest is dropped. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pending: OrderedDict[str, PendingLogin] = OrderedDict()

    def begin(self, path: str) -> tuple[str, PendingLogin]:
        """Begin a login that ends at `path`; return the cookie for the browser, and the login."""
        cookie, state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(4))
        login = PendingLogin(state, nonce, verifier, path, time.monotonic() + LIFETIME_SECONDS)
        with self._lock:
            self._pending[cookie] = login
            if len(self._pending) > MAX_PENDING:
                self._pending.popitem(last=False)
        return cookie, login

    def end(self, cookie: str, state: str) -> PendingLogin | None:
        """Return the login of `cookie` once, if its state is `state` and it is not too old; else None."""
        with self._lock:
            login = self._pending.pop(cookie, None)
        same = hmac.compare_digest(login.state if login else "", state.encode("ascii", "replace").decode())
        return login if login and same and time.monotonic() < login.ends else None
