"""Keys with which the service signs values that it gives away, such as cookies."""

import logging
import secrets

from sqlalchemy import Column, LargeBinary, Table, Text, insert, select

from cbir.errors import StorageFull
from service.state.database import StateDatabase
from service.state.errors import StateUnavailable
from service.state.schema import tables

KEY_BYTES = 32

keys = Table(
    "signing_keys",
    tables,
    Column("name", Text, primary_key=True),
    Column("key", LargeBinary, nullable=False),
)

log = logging.getLogger(__name__)


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
