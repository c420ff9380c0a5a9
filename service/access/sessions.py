"""Logins of the page: what a cookie stands for, kept on this side."""

import hashlib
import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

SECONDS = 12 * 3600  # a working day; the token may end sooner
MOST = 10_000


class Session(NamedTuple):
    """csrf: what a request that changes something must send along, since cookies go along by themselves."""

    token_id: str
    csrf: str
    ends: float


class Sessions:
    """Sessions by the hash of their cookie, the oldest dropped where there are more than 10,000. Thread-safe.

    They hold the id of a token, not its rights: those are looked up each time, so that a session ends with it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def open(self, token_id: str) -> str:
        """A new session; its cookie."""
        cookie = secrets.token_urlsafe(32)
        session = Session(token_id, secrets.token_urlsafe(32), time.monotonic() + SECONDS)
        with self._lock:
            self._sessions[_key(cookie)] = session
            if len(self._sessions) > MOST:
                self._sessions.popitem(last=False)
        return cookie

    def get(self, cookie: str) -> Session | None:
        """The session of a cookie while it lasts. By its hash: how long that takes says nothing of the cookie."""
        found = self._sessions.get(_key(cookie))
        return found if found and time.monotonic() < found.ends else None

    def close(self, cookie: str) -> None:
        """End a session, if there is one."""
        with self._lock:
            self._sessions.pop(_key(cookie), None)


def _key(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()
