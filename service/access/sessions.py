"""Login sessions of the pages, stored on the server."""

import hashlib
import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

LIFETIME_SECONDS = 12 * 3600  # a working day; the token may expire earlier
MAX_SESSIONS = 10_000
MAX_SESSIONS_OF_SUBJECT = 100  # a ward shares a token


class User(NamedTuple):
    """User whom an identity provider, or a proxy, has authenticated."""

    name: str
    groups: tuple[str, ...]


class Session(NamedTuple):
    """Login; state-changing requests must send `csrf`, since browsers attach cookies to any request."""

    subject: str | User  # the id of a token, or a user
    csrf: str
    ends: float


class Sessions:
    """Sessions by the hash of their cookie. Thread-safe.

    Beyond 100 sessions of a token or user, its oldest is dropped; beyond 10,000 in all, the oldest of all.

    A session holds the id of a token, or a user with groups, not rights. Rights are looked up on each request, so a
    session ends with its token.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def open(self, subject: str | User) -> str:
        """Open a session for the id of a token, or for a user, and return its cookie."""
        cookie = secrets.token_urlsafe(32)
        session = Session(subject, secrets.token_urlsafe(32), time.monotonic() + LIFETIME_SECONDS)
        with self._lock:
            same = [key for key, other in self._sessions.items() if other.subject == subject]
            if len(same) >= MAX_SESSIONS_OF_SUBJECT:
                del self._sessions[same[0]]
            self._sessions[_hash(cookie)] = session
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return cookie

    def get(self, cookie: str) -> Session | None:
        """Return the session of `cookie`, or None if it has ended.

        The lookup is by hash, so its duration reveals nothing about the cookie.
        """
        session = self._sessions.get(_hash(cookie))
        return session if session and time.monotonic() < session.ends else None

    def close(self, cookie: str) -> None:
        """End the session of `cookie`, if any."""
        with self._lock:
            self._sessions.pop(_hash(cookie), None)


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()
