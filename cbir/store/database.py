"""Database of a collection: a SQLite file in its folder, or a schema in PostgreSQL."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeGuard

from sqlalchemy import Connection, Engine

from cbir.errors import InvalidInput
from cbir.store import schema
from cbir.store.postgresql_address import is_in_postgresql


class Database(Protocol):
    """Connections to the database of a collection: SQLAlchemy's engine, or `PostgresqlDatabase`."""

    def connect(self) -> Connection:
        """Return a connection for queries, which all see the database as the first one does."""

    def begin(self) -> AbstractContextManager[Connection]:
        """Return a transaction that writes."""

    def dispose(self) -> None:
        """Close the connections."""


def open_database(folder: Path) -> Database:
    """Return the database of the collection in `folder`."""
    if not is_in_postgresql(folder):
        return schema.connect(folder)
    from cbir.store import postgresql_creation

    return postgresql_creation.open_database(folder)


def is_sqlite(database: Database) -> TypeGuard[Engine]:
    """Return whether a database is a SQLite file."""
    return isinstance(database, Engine)


def connect_once(database: Database) -> Connection:
    """Return a connection for one query; in PostgreSQL without a transaction, which would take longer."""
    if is_sqlite(database):
        return database.connect()
    from cbir.store.postgresql_database import PostgresqlDatabase

    assert isinstance(database, PostgresqlDatabase)
    return database.connect_once()


def require_sqlite(database: Database, what: str) -> Engine:
    """Return the engine of a SQLite file; raise InvalidInput, which says that PostgreSQL does `what` itself."""
    if is_sqlite(database):
        return database
    raise InvalidInput(
        f"{what} is for collections in a folder; PostgreSQL has tools of its own, see docs/postgresql.md"
    )
