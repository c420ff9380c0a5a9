"""Access to the service: tokens and their last uses, logins of the pages, failed attempts, and keys that sign values.

Tokens are those of services that share their state. Of tokens and cookies there are hashes.
"""

import logging
import secrets
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    LargeBinary,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from cbir.errors import StorageFull
from service.state.database import StateDatabase
from service.state.schema import StateUnavailable, WholeNumber, tables, unix_time

sessions = Table(
    "login_sessions",
    tables,
    Column("number", WholeNumber, primary_key=True),  # ascending with time
    Column("cookie_hash", Text, nullable=False, unique=True),  # SHA-256
    Column("token_id", Text, index=True),
    Column("user_name", Text, index=True),  # of a login by the hospital's identity, in place of a token
    Column("user_groups", JSON, nullable=False),
    Column("ends", WholeNumber, nullable=False),
)
attempts = Table(
    "failed_attempts",
    tables,
    Column("network", Text, primary_key=True),
    Column("count", WholeNumber, nullable=False),
    Column("ends", WholeNumber, nullable=False, index=True),
)
tokens = Table(
    "tokens",
    tables,
    Column("number", WholeNumber, primary_key=True),  # ascending with time
    Column("token_id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the secret
    Column("rights", JSON, nullable=False),
    Column("created", WholeNumber, nullable=False),
    Column("expires", WholeNumber),
    Column("revoked", WholeNumber),
    Column("made_by", Text),  # "token ID" or "user NAME"
)
uses = Table(
    "token_uses",
    tables,
    Column("token_id", Text, primary_key=True),
    Column("last_used", WholeNumber, nullable=False),
)
KEY_BYTES = 32
keys = Table(
    "signing_keys",
    tables,
    Column("name", Text, primary_key=True),
    Column("key", LargeBinary, nullable=False),
)

log = logging.getLogger(__name__)


class StoredSession(NamedTuple):
    """Login by a token, or of a user with groups. ends: seconds since 1970."""

    cookie_hash: str
    token_id: str | None
    user_name: str | None
    user_groups: tuple[str, ...]
    ends: int


def add_session(database: StateDatabase, session: StoredSession, limit: int, limit_of_subject: int) -> None:
    """Store a session; drop those that have ended, and the oldest beyond a limit.

    Parameters
    ----------
    database : StateDatabase
        Database to store it in.
    session : StoredSession
        The new session.
    limit : int
        Number of sessions to keep, at least 1.
    limit_of_subject : int
        Number of sessions to keep of the same token or user, at least 1.
    """
    same = sessions.c.token_id == session.token_id
    if session.token_id is None:
        same = sessions.c.user_name == session.user_name
    with database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.ends <= unix_time()))
        connection.execute(insert(sessions).values(session._asdict()))
        _keep_newest(connection, limit_of_subject, same)
        _keep_newest(connection, limit)


def _keep_newest(connection: Connection, limit: int, *conditions: object) -> None:
    newest = select(sessions.c.number).where(*conditions).order_by(sessions.c.number.desc())  # type: ignore[arg-type]
    first_dropped = connection.execute(newest.offset(limit).limit(1)).scalar()
    if first_dropped is not None:
        old = delete(sessions).where(sessions.c.number <= first_dropped, *conditions)  # type: ignore[arg-type]
        connection.execute(old)


def find_session(database: StateDatabase, cookie_hash: str) -> StoredSession | None:
    """Return the session of a cookie; None if it was closed, dropped, or never opened."""
    query = select(*[sessions.c[name] for name in StoredSession._fields])
    with database.reading() as connection:
        row = connection.execute(query.where(sessions.c.cookie_hash == cookie_hash)).one_or_none()
    if row is None:
        return None
    return StoredSession(row.cookie_hash, row.token_id, row.user_name, tuple(row.user_groups), row.ends)


def remove_session(database: StateDatabase, cookie_hash: str) -> None:
    """Remove the session of a cookie, if any."""
    with database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.cookie_hash == cookie_hash))


def add_failure(database: StateDatabase, network: str, seconds: int, limit: int) -> int:
    """Count a failure, and return the number of those in its series.

    Parameters
    ----------
    database : StateDatabase
    network : str
        Address, or network, of the client.
    seconds : int
        Time after the last failure in which the next one counts as one of the same series.
    limit : int
        Number of networks to keep, at least 1; those that end first are dropped.
    """
    same, now = attempts.c.network == network, unix_time()
    with database.writing() as connection:
        connection.execute(delete(attempts).where(attempts.c.ends <= now))
        more = update(attempts).where(same).values(count=attempts.c.count + 1, ends=now + seconds)
        if not connection.execute(more).rowcount:
            excess = connection.execute(select(func.count()).select_from(attempts)).scalar_one() - limit + 1
            if excess > 0:
                first = select(attempts.c.network).order_by(attempts.c.ends, attempts.c.network).limit(excess)
                connection.execute(delete(attempts).where(attempts.c.network.in_(first)))
            connection.execute(insert(attempts).values(network=network, count=1, ends=now + seconds))
        return int(connection.execute(select(attempts.c.count).where(same)).scalar_one())


def signing_key(database: StateDatabase, name: str) -> bytes:
    """Return the key for a purpose, the same after each restart; a new one where the state cannot be used.

    Raises StateUnavailable where services share the state, since the others could not check what this one signs.
    """
    try:
        with database.writing() as connection:
            key: bytes | None = connection.execute(select(keys.c.key).where(keys.c.name == name)).scalar()
            if key is None:
                key = secrets.token_bytes(KEY_BYTES)
                connection.execute(insert(keys).values(name=name, key=key))
            return key
    except (StateUnavailable, StorageFull) as error:
        if database.shared:
            raise StateUnavailable(str(error)) from error
        log.warning("a new key is used until the restart: %s", error)
        return secrets.token_bytes(KEY_BYTES)


def read_tokens(connection: Connection) -> list[dict[str, Any]]:
    """Return the columns of all tokens by name, the oldest first; times in seconds since 1970."""
    stored = select(*[column for column in tokens.c if column is not tokens.c.number])
    return [dict(row._mapping) for row in connection.execute(stored.order_by(tokens.c.number))]


def add_token(connection: Connection, values: dict[str, Any]) -> None:
    """Store a new token, as `read_tokens` returns it."""
    connection.execute(insert(tokens).values(values))


def mark_revoked(connection: Connection, token_id: str, at: float) -> None:
    """Mark a token as revoked.

    Parameters
    ----------
    connection : Connection
    token_id : str
    at : float
        Seconds since 1970.
    """
    row = update(tokens).where(tokens.c.token_id == token_id)
    connection.execute(row.values(revoked=int(at)))


def save_use(database: StateDatabase, token_id: str, at: int) -> None:
    """Store the last use of a token.

    Parameters
    ----------
    database : StateDatabase
        Database to store it in.
    token_id : str
        Id of the token.
    at : int
        Time of the use, in seconds since 1970.
    """
    with database.writing() as connection:
        updated = connection.execute(
            update(uses).where(uses.c.token_id == token_id).values(last_used=at)
        ).rowcount
        if not updated:
            connection.execute(insert(uses).values(token_id=token_id, last_used=at))


def load_uses(database: StateDatabase) -> dict[str, int]:
    """Return the seconds since 1970 at which each token was last used, by its id."""
    with database.reading() as connection:
        return {row.token_id: row.last_used for row in connection.execute(select(uses))}
