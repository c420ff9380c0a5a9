"""Access tokens of services that share their state, as hashes and rights, and the last use of each token."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import JSON, Column, Connection, Table, Text, insert, select, update

from service.state.database import StateDatabase
from service.state.schema import WholeNumber, tables

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


class TokenRow(NamedTuple):
    """A token as it is stored, with its `rights` as the fields of `cbir.system.access_rights.Rights`."""

    token_id: str
    name: str
    digest: str
    rights: dict[str, Any]
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    made_by: str | None


def read_tokens(connection: Connection) -> list[TokenRow]:
    """Return all tokens, the oldest first."""
    rows = connection.execute(select(tokens).order_by(tokens.c.number))
    return [
        TokenRow(
            row.token_id,
            row.name,
            row.digest,
            row.rights,
            datetime.fromtimestamp(row.created, UTC),
            _date(row.expires),
            _date(row.revoked),
            row.made_by,
        )
        for row in rows
    ]


def add_token(connection: Connection, token: TokenRow) -> None:
    """Store a new token."""
    times = {name: _seconds(getattr(token, name)) for name in ("created", "expires", "revoked")}
    connection.execute(insert(tokens).values(token._asdict() | times))


def mark_revoked(connection: Connection, token_id: str, at: datetime) -> None:
    """Mark a token as revoked.

    Parameters
    ----------
    connection : Connection
    token_id : str
    at : datetime
        Time of the revocation.
    """
    row = update(tokens).where(tokens.c.token_id == token_id)
    connection.execute(row.values(revoked=_seconds(at)))


def _date(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _seconds(date: datetime | None) -> int | None:
    return None if date is None else int(date.timestamp())


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
