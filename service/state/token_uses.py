"""Last use of each token, to some minutes."""

from sqlalchemy import Column, Table, Text, insert, select, update

from service.state.database import StateDatabase
from service.state.schema import WholeNumber, tables

uses = Table(
    "token_uses",
    tables,
    Column("token_id", Text, primary_key=True),
    Column("last_used", WholeNumber, nullable=False),
)


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
