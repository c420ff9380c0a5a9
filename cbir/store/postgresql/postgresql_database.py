"""Database of a collection: a SQLite file in its folder, or a schema in PostgreSQL, with connections and errors.

Both have `connect`, for queries that all see the database as the first one does, and `begin`, for a transaction that
writes.
"""

import math
import re
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DisconnectionError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from cbir.errors import CollectionBusy, DatabaseUnavailable, InvalidInput, StorageFull
from cbir.store.base import schema
from cbir.store.postgresql.postgresql_address import database_address, find_password
from cbir.system.addresses import collection_name
from cbir.system.remedies import install_command
from cbir.system.threads import checkpoint

OTHERWISE = "try again; the log of the server may say more"

# Words of the reason, all of which must occur; English, as libpq's messages are for `LC_MESSAGES=C` and by default.
REMEDIES = (
    (
        ("password authentication failed",),
        "correct the password: the setting collection_password_file, or PGPASSWORD",
    ),
    (
        ("no password supplied",),
        "name a file with the password: the setting collection_password_file, or PGPASSFILE",
    ),
    (("database", "does not exist"), "correct the address, or create the database: docs/postgresql.md"),
    (("role", "does not exist"), "correct the user in the address, or create the role: docs/postgresql.md"),
    (("permission denied",), "give the user the rights on the schema: docs/postgresql.md"),
    (("pg_hba.conf",), "let pg_hba.conf of the server admit this user from this machine"),
    (("resolve host",), "correct the host in the address"),
    (("certificate",), "correct sslmode and sslrootcert in the address"),
    (("SSL", "closed unexpectedly"), OTHERWISE),
    (("SSL SYSCALL",), OTHERWISE),
    (("SSL",), "correct sslmode in the address"),
    (("too many clients",), "raise max_connections of the server, or use fewer threads and services"),
    (("Connection refused",), "start the server, or correct host and port in the address"),
    (("No such file or directory",), "start the server, or correct the folder of its socket in the address"),
    (("timeout expired",), "start the server, or correct host and port in the address"),
)

# Words of the reasons that only a change of settings or of the server's configuration removes.
LASTING = (
    "password",
    "does not exist",
    "permission denied",
    "pg_hba.conf",
    "certificate",
    "SSL",
    "newer version",
)

ENDED = ("closed unexpectedly", "SYSCALL")  # words of the reasons when a server with TLS ends


def remedy_for(reason: str) -> str:
    """Return what to do about the reason for which PostgreSQL cannot be used."""
    matching = (remedy for words, remedy in REMEDIES if all(word in reason for word in words))
    return next(matching, OTHERWISE)


def may_pass(message: str) -> bool:
    """Return whether to wait for the server, which may be starting, and not to report the error as a mistake."""
    reason = message.partition("cannot be used: ")[2] or message  # the address may have any words
    return any(word in reason for word in ENDED) or not any(word in reason for word in LASTING)


LOCK = 0x63626973  # not that of the state database

ALONE_LOCK = 0x63626977  # writers share it, unless one of them keeps the others out

ALONE_WAIT = "10s"  # for the transactions of others to end

# Parameters of libpq, which the address may set otherwise; seconds but for the last (milliseconds).
CONNECTING: dict[str, str | int] = {
    "application_name": "cbir",
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

# Writers take turns; one that hangs in its transaction must not keep the others waiting.
TIMEOUTS = "-c lock_timeout=60s -c idle_in_transaction_session_timeout=1h"

WRITING_TIMEOUT, ALONE_TIMEOUT = "60s", "1h"

# A connection that was idle for longer is tried before use: the server may have been restarted.
IDLE_SECONDS = 1.0

USED_AT = "used_at"  # in the information on a connection

LIBPQ = re.compile(r"connection failed: (connection to server .*? failed: (FATAL:  )?)?")  # before the reason

DISK_FULL, LOCK_TIMEOUT, TOO_LONG = "53100", "55P03", "54000"


class PostgresqlDatabase:
    """Database of a collection in a schema of a PostgreSQL database. Thread-safe.

    Parameters
    ----------
    address : str
        Address of the collection.

    Raises
    ------
    InvalidInput
        If psycopg is not installed.
    """

    def __init__(self, address: str) -> None:
        try:
            import psycopg  # noqa: F401
        except ImportError as error:  # also without libpq
            raise InvalidInput(
                f"a collection in PostgreSQL needs psycopg: {install_command('postgres')}"
            ) from error
        self.schema = collection_name(address)
        self.name = address
        self._url = make_url(address).difference_update_query(["collection"])
        self._keeping_out: Connection | None = None  # holds the lock of who writes alone
        engine = self._create_engine()
        weakref.finalize(self, engine.dispose).atexit = False
        self._connect_to(engine)

    def limited(self, statements: Sequence[str]) -> "PostgresqlDatabase":
        """Return the database with connections that run these statements first, and can write nothing.

        What is in the schema "main" of a query is in that of the collection, also for what the statements create.
        """
        database = PostgresqlDatabase(self.name)

        @event.listens_for(database._single, "connect")
        def _limit(connection: Any, _record: Any) -> None:
            for statement in (*statements, "SET default_transaction_read_only = on"):
                connection.execute(statement)
            connection.commit()

        database._connect_to(database._single.execution_options(schema_translate_map={"main": self.schema}))
        return database

    def _connect_to(self, engine: Engine) -> None:
        self._single = engine
        self._engine = engine.execution_options(isolation_level="READ COMMITTED")
        self._reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def connect(self) -> Connection:
        """Return a connection for queries, which all see the database as the first one does."""
        return self._reading.connect()

    def connect_once(self) -> Connection:
        """Return a connection for one query, or for several that need not see the same state."""
        return self._single.connect()

    def begin(self) -> AbstractContextManager[Connection]:
        """Return a transaction that writes; those of a collection take turns, on all machines."""
        return self._begin()

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        if self._keeping_out is None:
            timeout = WRITING_TIMEOUT
            may_write = f"pg_try_advisory_xact_lock_shared({ALONE_LOCK}, {self._name_hash})"
        else:
            self._keeping_out.exec_driver_sql("SELECT 1")  # raises if its lock was lost with the server
            timeout, may_write = ALONE_TIMEOUT, "true"
        with self._engine.begin() as connection:
            turn = f"pg_advisory_xact_lock({LOCK}, {self._name_hash})::text"
            free = connection.exec_driver_sql(
                f"SELECT CASE WHEN {may_write} THEN {turn} END IS NOT NULL, "
                f"set_config('idle_in_transaction_session_timeout', '{timeout}', true)"
            ).scalar()
            if not free:
                raise CollectionBusy(f"images are being carried over to {self.name}; wait for that to end")
            yield connection

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other writers out, on all machines; they are refused at once.

        Raises CollectionBusy if another process does so, or if transactions of others do not end.
        """
        with self._single.connect() as connection:
            connection.detach()  # closing it releases the lock
            connection.exec_driver_sql(f"SET lock_timeout = '{ALONE_WAIT}'")
            connection.exec_driver_sql(f"SELECT pg_advisory_lock({ALONE_LOCK}, {self._name_hash})")
            self._keeping_out = connection
            try:
                yield
            finally:
                self._keeping_out = None
                # A closed connection releases the lock too, but a moment later; a lost one has lost it.
                with suppress(SQLAlchemyError, DatabaseUnavailable):
                    connection.exec_driver_sql(f"SELECT pg_advisory_unlock({ALONE_LOCK}, {self._name_hash})")

    @property
    def _name_hash(self) -> str:
        return f"hashtext('{self.schema}')"

    @property
    def engine(self) -> Engine:
        """Connections without the lock of writers, for tables of search indexes."""
        return self._engine

    def dispose(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _create_engine(self) -> Engine:
        options = {name: value for name, value in CONNECTING.items() if name not in self._url.query}
        engine = create_engine(
            self._url,
            max_overflow=-1,  # as many connections as there are threads
            isolation_level="AUTOCOMMIT",  # of single queries, which are most: it is not changed for each of them
            skip_autocommit_rollback=True,
            hide_parameters=True,
            connect_args=options | {"options": f"-c search_path={self.schema},public {TIMEOUTS}"},
        )

        @event.listens_for(engine, "do_connect")
        def _connect(_dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
            from cbir.store.postgresql.postgresql_connection import LimitedConnection

            password = find_password(self._url)
            return LimitedConnection.connect(
                *arguments, **parameters | ({"password": password} if password else {})
            )

        @event.listens_for(engine, "checkin")
        def _note_time(_connection: Any, record: ConnectionPoolEntry) -> None:
            record.info[USED_AT] = time.monotonic()

        @event.listens_for(engine, "checkout")
        def _require_answer(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
            if time.monotonic() - record.info.get(USED_AT, math.inf) > IDLE_SECONDS:
                try:
                    engine.dialect.do_ping(connection)
                except engine.dialect.loaded_dbapi.Error as error:  # the pool makes a new one
                    raise DisconnectionError from error

        @event.listens_for(engine, "handle_error")
        def _translate(context: Any) -> None:
            self._raise_translated(context.original_exception)

        return engine

    def _raise_translated(self, error: BaseException) -> None:
        """Raise the error of cbir that an error of psycopg means; no message has values of rows."""
        import psycopg

        if isinstance(error, psycopg.errors.QueryCanceled):
            checkpoint()  # raises the reason
        if isinstance(error, psycopg.DataError | UnicodeEncodeError):
            raise InvalidInput(
                "PostgreSQL cannot store or compare a text with a NUL character, with half of a surrogate pair, or "
                "a number of more than 64 bits"
            ) from error
        if not isinstance(error, psycopg.Error):
            return
        if error.sqlstate == TOO_LONG:  # for an index
            raise InvalidInput(
                "a text is too long for an index of PostgreSQL, which takes 2,700 bytes; shorten names of labels"
            ) from error
        if error.sqlstate == LOCK_TIMEOUT:
            raise CollectionBusy(f"other processes are writing to {self.name}; try again") from error
        if error.sqlstate == DISK_FULL:
            raise StorageFull(f"the disk of {self.name} is full; no data is damaged or lost") from error
        self._raise_unavailable(error)

    def _raise_unavailable(self, error: Any) -> NoReturn:
        lines = (error.diag.message_primary or str(error)).strip().splitlines() or ["no reason given"]
        reason = LIBPQ.sub("", lines[0])
        raise DatabaseUnavailable(
            f"the collection {self.name} cannot be used: {reason}; {remedy_for(reason)}"
        ) from error


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
