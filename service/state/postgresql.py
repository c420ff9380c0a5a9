"""State database in a schema of a PostgreSQL database, which several services may share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, Table, create_engine, event, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from cbir.errors import InvalidInput
from cbir.store.postgresql.postgresql_database import CONNECTING
from cbir.system.addresses import state_schema
from cbir.system.files import read_password
from cbir.system.remedies import install_command
from service.state.schema import StateUnavailable, tables

LOCK = 0x63626972  # "cbir", so that it is no other program's lock
ROWS_AT_ONCE = 100  # one may have a picture
# A service that hangs in a transaction must not keep the others waiting.
TIMEOUTS = "-c lock_timeout=10s -c idle_in_transaction_session_timeout=60s"


class PostgresqlSchema:
    """A schema of a PostgreSQL database.

    Transactions that write take turns, as in SQLite: the queries of this package count on it, but for those of jobs.

    Parameters
    ----------
    url : str
        The setting `state_database`.
    password_file : Path or None
        File with the password; None: that of `url`, PGPASSWORD or PGPASSFILE.

    Raises
    ------
    InvalidInput
        If psycopg is not installed.
    """

    shared = True
    reading_options: ClassVar[dict[str, Any]] = {
        "isolation_level": "REPEATABLE READ",
        "postgresql_readonly": True,
    }

    def __init__(self, url: str, password_file: Path | None = None) -> None:
        address = make_url(url)
        self.schema = state_schema(url)
        self.name = f"state_database {address.render_as_string(hide_password=True)}"
        self._address = address.difference_update_query(["schema"])
        self._password_file = password_file
        try:
            import psycopg  # noqa: F401
        except ImportError as error:  # also without libpq
            raise InvalidInput(f"state_database needs psycopg: {install_command('postgres')}") from error

    def exists(self) -> bool:
        """Return True: only the server knows."""
        return True

    def connect(self) -> Engine:
        """Return an engine for the schema."""
        options = {name: value for name, value in CONNECTING.items() if name not in self._address.query}
        engine = create_engine(
            self._address,
            pool_pre_ping=True,  # the server may have been restarted
            max_overflow=-1,  # as many connections as there are threads
            hide_parameters=True,
            connect_args=options | {"options": f"-c search_path={self.schema} {TIMEOUTS}"},
        )

        @event.listens_for(engine, "do_connect")
        def _connect(_dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
            from cbir.store.postgresql.postgresql_connection import WatchedConnection

            if self._password_file:
                parameters["password"] = read_password(
                    self._password_file, "state_database_password_file", StateUnavailable
                )
            return WatchedConnection.connect(*arguments, **parameters)

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            if connection.get_execution_options().get("cbir_in_turn"):
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK}, hashtext('{self.schema}'))")

        return engine

    def create(self) -> None:
        """Do nothing: an operator creates the database."""

    def note_made(self) -> None:
        """Do nothing: an operator sees to it that the database stays."""

    @contextmanager
    def changing_schema(self, connection: Connection) -> Iterator[None]:
        """Create the schema unless it exists; a user who may not create one can use it all the same."""
        missing = f"SELECT to_regnamespace('{self.schema}') IS NULL"
        if connection.execute(text(missing)).scalar_one():
            connection.execute(text(f"CREATE SCHEMA {self.schema}"))
        yield

    def problems(self, connection: Connection, tables: Sequence[Table]) -> list[str]:
        """Read all rows: the server compares each page that it reads with its checksum, and reports an error."""
        for table in tables:
            rows = connection.execution_options(stream_results=True, yield_per=ROWS_AT_ONCE).execute(
                select(table)
            )
            for _ in rows.partitions():
                pass
        return []

    def accept_loss(self) -> None:
        """Do nothing: the server has a log of its own."""

    def accept_rows(self, _connection: Connection, _tables: Sequence[Table]) -> list[str]:
        """Raise InvalidInput: there are no sums."""
        raise InvalidInput(
            "--accept is for state.sqlite; the state in PostgreSQL is restored with pg_restore"
        )

    def drop_old_rows(self, engine: Engine) -> None:
        """Free the place of what was deleted or changed; PostgreSQL's log and backups keep it for their time."""
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"VACUUM {', '.join(tables.tables)}"))

    def reason(self, error: DBAPIError) -> str:
        """Return the reason of an error in a line; the others could hold values of rows."""
        return (str(error.orig).splitlines() or ["no reason given"])[0]

    def is_down(self, error: DBAPIError) -> bool:
        """Return True if no server answered, and not one that refused a statement."""
        return getattr(error.orig, "sqlstate", None) is None


def continue_numbers(connection: Connection, table: Table) -> None:
    """Number new rows of a table after those that were inserted with their numbers."""
    column = table.autoincrement_column
    if column is not None:
        last = select(func.max(column)).scalar_subquery()
        connection.execute(select(func.setval(func.pg_get_serial_sequence(table.name, column.name), last)))
