"""Database of a collection: a SQLite file in its folder, or a schema in PostgreSQL.

Both have `connect`, for queries that all see the database as the first one does, and `begin`, for a transaction that
writes.
"""

from pathlib import Path
from typing import TypeGuard

from sqlalchemy import Connection, Engine

from cbir.errors import InvalidInput
from cbir.store.base import schema
from cbir.store.postgresql.postgresql_address import database_address
from cbir.store.postgresql.postgresql_database import PostgresqlDatabase

Database = Engine | PostgresqlDatabase


def open_database(folder: Path) -> Database:
    """Return the database of the collection in `folder`."""
    address = database_address(folder)
    return PostgresqlDatabase(address) if address else schema.connect(folder)


def is_sqlite(database: Database) -> TypeGuard[Engine]:
    """Return whether a database is a SQLite file."""
    return isinstance(database, Engine)


def connect_once(database: Database) -> Connection:
    """Return a connection for one query; in PostgreSQL without a transaction, which would take longer."""
    return database.connect() if isinstance(database, Engine) else database.connect_once()


def require_sqlite(database: Database, what: str) -> Engine:
    """Return the engine of a SQLite file; raise InvalidInput, which says that PostgreSQL does `what` itself."""
    if isinstance(database, Engine):
        return database
    raise InvalidInput(
        f"{what} is for collections in a folder; PostgreSQL has tools of its own, see docs/postgresql.md"
    )
