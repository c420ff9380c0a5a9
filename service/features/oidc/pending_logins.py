"""Logins at an identity provider that have begun in a browser."""

import hmac
import secrets
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from itsdangerous import BadSignature, URLSafeTimedSerializer

LIFETIME_SECONDS = 600
MAX_COOKIE_LENGTH = 3800  # browsers drop cookies of more than 4096 bytes


class PendingLogin(NamedTuple):
    """Login that has begun in a browser. next: path of this service to show afterwards."""

    state: str
    nonce: str
    verifier: str
    next: str


class PendingLogins:
    """Logins that have begun, each in a signed cookie of its browser: no number of others can end them. Thread-safe.

    Parameters
    ----------
    key : callable
        Returns the key of the signatures; called by the first login.
    """

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    @cached_property
    def _serializer(self) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self._key(), salt="pending login")

    def begin(self, path: str) -> tuple[str, PendingLogin]:
        """Begin a login that ends at `path`, at / if that is too long; return the browser's cookie, and the login."""
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        login = PendingLogin(state, nonce, verifier, path)
        cookie = str(self._serializer.dumps(login))
        return (cookie, login) if len(cookie) <= MAX_COOKIE_LENGTH else self.begin("/")

    def end(self, cookie: str, state: str) -> PendingLogin | None:
        """Return the login of `cookie`, if its state is `state` and it is not too old; else None.

        The caller deletes the cookie. The provider accepts the code of a login once.
        """
        try:
            login = PendingLogin(*self._serializer.loads(cookie, max_age=LIFETIME_SECONDS))
        except BadSignature:
            return None
        same = hmac.compare_digest(login.state, state.encode("ascii", "replace").decode())
        return login if same else None
