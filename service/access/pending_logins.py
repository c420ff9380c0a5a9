"""Logins at an identity provider that have begun in a browser."""

import hmac
import secrets
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

    The key is new with each start of the service.
    """

    def __init__(self) -> None:
        self._serializer = URLSafeTimedSerializer(secrets.token_bytes(32), salt="pending login")

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
