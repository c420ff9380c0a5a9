"""Record of a vector index that several machines share, in the table `meta` of a collection in PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text

from cbir.store.base import metadata
from cbir.store.postgresql.postgresql_database import PostgresqlDatabase

LOCK = 0x63626978  # class of the advisory locks of those who follow


class IndexRecord:
    """Record of one kind of index: a short text that is read for every search, and a long one.

    Parameters
    ----------
    database : PostgresqlDatabase
        Database of the collection.
    kind : str
        Kind of the index.
    """

    def __init__(self, database: PostgresqlDatabase, kind: str) -> None:
        self._database, self._kind = database, kind
        self._keys = f"index:{kind}", f"index:{kind}:statistics"

    def read_short(self) -> str | None:
        """Return the short text; None without a record."""
        with self._database.connect_once() as connection:
            return metadata.find_value(connection, self._keys[0])

    def read(self) -> tuple[str, str] | None:
        """Return both texts, as one write stored them; None without a record."""
        with self._database.connect() as connection:
            short, long = (metadata.find_value(connection, key) for key in self._keys)
        return None if short is None else (short, long or "")

    def write(self, short: str, long: str) -> None:
        """Store both texts in one transaction."""
        with self._database.engine.begin() as connection:
            for key, value in zip(self._keys, (short, long), strict=True):
                if metadata.find_value(connection, key) != value:
                    metadata.set_value(connection, key, value)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the lock of this index on all machines; yields False if another process holds it."""
        name = {"class": LOCK, "name": f"{self._database.schema}:{self._kind}"}
        arguments = "(:class, hashtext(:name))"
        engine = self._database.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            locked = bool(connection.scalar(text(f"SELECT pg_try_advisory_lock{arguments}"), name))
            try:
                yield locked
            finally:
                if locked and not connection.invalidated:
                    connection.execute(text(f"SELECT pg_advisory_unlock{arguments}"), name)
