"""Login sessions of the pages, and tickets for single images, which stand for a token or user for a time."""

import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from flask import current_app
from itsdangerous import BadSignature, TimestampSigner

from cbir.errors import StorageFull
from service.state.access_rows import StoredSession, add_session, find_session, remove_session, signing_key
from service.state.database import StateDatabase, state_database
from service.state.schema import StateUnavailable

LIFETIME_SECONDS = 12 * 3600  # a working day; the token may expire earlier
MAX_SESSIONS = 10_000
MAX_SESSIONS_OF_SUBJECT = 100  # a ward shares a token
FOREVER = float("inf")
CHECK_SECONDS = 10.0  # after which the database is asked again: another process may have ended the session
UNCHECKED_SECONDS = 300.0  # for which a session goes on while a shared database cannot be asked
TICKET_SECONDS = 600
KEY_EXTENSION = "cbir-ticket-key"

log = logging.getLogger(__name__)


class User(NamedTuple):
    """User whom an identity provider, or a proxy, has authenticated."""

    name: str
    groups: tuple[str, ...]


class Session(NamedTuple):
    """Login; state-changing requests must send `csrf`, since browsers attach cookies to any request.

    ends: seconds since 1970.
    """

    subject: str | User  # the id of a token, or a user
    csrf: str
    ends: float


class CachedSession(NamedTuple):
    """Session as the database had it; None if it was closed. check: when to ask again, on the monotonic clock."""

    stored: StoredSession | None
    check: float


class Sessions:
    """Sessions by the hash of their cookie; they outlive a restart. Thread-safe.

    Beyond 100 sessions of a token or user, its oldest is dropped; beyond 10,000 in all, the oldest of all.

    A session holds the id of a token, or a user with groups, not rights. Rights are looked up on each request, so a
    session ends with its token. Where the database cannot be written, sessions are in memory until the restart. Where
    services share it, StateUnavailable is raised instead, since the others would not know of a login or a logout.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    """

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        self._lock = Lock()
        self._cached: OrderedDict[str, CachedSession] = OrderedDict()

    def open(self, subject: str | User) -> str:
        """Open a session for the id of a token, or for a user, and return its cookie."""
        cookie = secrets.token_urlsafe(32)
        user = subject if isinstance(subject, User) else None
        session = StoredSession(
            cookie_hash=_hash(cookie),
            token_id=None if user else str(subject),
            user_name=user and user.name,
            user_groups=user.groups if user else (),
            ends=int(time.time()) + LIFETIME_SECONDS,
        )
        try:
            add_session(self._database, session, MAX_SESSIONS, MAX_SESSIONS_OF_SUBJECT)
        except (StateUnavailable, StorageFull) as error:
            self._raise_if_shared(error)
            log.warning("a login will not outlive a restart: %s", error)
            self._keep_in_memory(session)
        return cookie

    def _keep_in_memory(self, session: StoredSession) -> None:
        with self._lock:
            subject = _subject(session)
            same = [key for key, (other, _) in self._cached.items() if other and _subject(other) == subject]
            if len(same) >= MAX_SESSIONS_OF_SUBJECT:
                del self._cached[same[0]]
            self._cache(session.cookie_hash, session, FOREVER)

    def _cache(self, key: str, session: StoredSession | None, check: float) -> None:
        self._cached[key] = CachedSession(session, check)
        if len(self._cached) > MAX_SESSIONS:
            self._cached.popitem(last=False)

    def get(self, cookie: str) -> Session | None:
        """Return the session of `cookie`, or None if it has ended; raises StateUnavailable, see the class.

        The lookup is by hash, so its duration reveals nothing about the cookie.
        """
        session = self._find(_hash(cookie)) if cookie else None
        if session is None or time.time() >= session.ends:
            return None
        return Session(_subject(session), _csrf(cookie), session.ends)

    def _find(self, key: str) -> StoredSession | None:
        cached, now = self._cached.get(key), time.monotonic()
        if cached and now < cached.check:
            return cached.stored
        try:
            session = find_session(self._database, key)
        except (StateUnavailable, StorageFull) as error:
            if cached is None or now >= cached.check - CHECK_SECONDS + UNCHECKED_SECONDS:
                self._raise_if_shared(error)
            log.warning("a login cannot be looked up: %s", error)
            return cached and cached.stored
        with self._lock:
            current = self._cached.get(key)
            if current and current.check == FOREVER:  # closed while the database was asked
                return current.stored
            self._cached.pop(key, None)
            if session:
                self._cache(key, session, now + CHECK_SECONDS)
        return session

    def close(self, cookie: str) -> None:
        """End the session of `cookie`, if any."""
        if self.get(cookie) is None:
            return
        key = _hash(cookie)
        try:
            remove_session(self._database, key)
        except (StateUnavailable, StorageFull) as error:
            self._raise_if_shared(error)
            log.warning("a logout will not outlive a restart: %s", error)
        with self._lock:
            self._cache(key, None, FOREVER)

    def _raise_if_shared(self, error: StateUnavailable | StorageFull) -> None:
        if self._database.shared:
            raise StateUnavailable("logins cannot be looked up or changed at the moment") from error


def _subject(session: StoredSession) -> str | User:
    return session.token_id or User(session.user_name or "", session.user_groups)


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()


def _csrf(cookie: str) -> str:
    """Return the value that requests must send: it follows from the cookie, which no script can read."""
    return hashlib.sha256(b"csrf " + cookie.encode("utf-8", "surrogatepass")).hexdigest()


def make_ticket(image_id: str, token_id: str) -> str:
    """Return an id of the image that shows, until it expires, what the token with `token_id` may see of it."""
    return _signer().sign(f"{image_id}.{token_id}").decode()


def ticket_image(text: str) -> str:
    """Return the id of the image in a ticket, or in an id without one."""
    return text.partition(".")[0]


def ticket_token(text: str) -> str | None:
    """Return the id of the token that got a ticket; None if `text` is none, or has expired."""
    try:
        return _signer().unsign(text, max_age=TICKET_SECONDS).decode().partition(".")[2]
    except (BadSignature, UnicodeError):
        return None


def _signer() -> TimestampSigner:
    key = current_app.extensions.get(KEY_EXTENSION)
    if key is None:
        key = current_app.extensions[KEY_EXTENSION] = signing_key(state_database(), "image-tickets")
    return TimestampSigner(key, salt="image-ticket")
