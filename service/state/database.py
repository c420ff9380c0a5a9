"""Connections to the state database."""

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, cast

from flask import Flask, current_app
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError

from cbir.atomic import BINARY
from cbir.store.disk_full import raise_when_full
from service.state.errors import StateUnavailable
from service.state.private_file import give_to_owner, permission_problem
from service.state.schema import NewerSchema, prepare

FILE = "state.sqlite"
EXTENSION = "cbir-state"
PRAGMAS = (
    "busy_timeout=10000",  # first: another process may be creating the tables
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "secure_delete=ON",
)


class StateDatabase:
    """Database of a state folder, opened by its first use. Thread-safe; processes may share it.

    Parameters
    ----------
    folder : Path
        State folder; created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self._lock = Lock()
        self._engine: Engine | None = None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection for queries, which all see the database as the first one does.

        Raises StateUnavailable.
        """
        with self._translated_errors(), self._open().connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection for a transaction: committed at the end of the block, rolled back after an error.

        Raises StateUnavailable, and StorageFull. IntegrityError passes: its meaning depends on the table.
        """
        with self._translated_errors(), _begin_writing(self._open()) as connection:
            yield connection

    def drop_old_pages(self) -> None:
        """Write what was deleted or changed out of the files: SQLite's log keeps it until then.

        Raises StateUnavailable. A reader that still needs the old pages delays it until the log is next written back.
        """
        with self._translated_errors(), self._open().connect() as connection:
            driver = connection.connection.driver_connection  # a pragma does not work in a transaction
            assert driver is not None
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def check(self) -> None:
        """Raise StateUnavailable if the database cannot be written."""
        with self.writing():
            pass

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            with raise_when_full(self.file.parent):
                yield
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise StateUnavailable(f"{self.file} cannot be used: {error.orig}") from error

    def _open(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._create_file()
                engine = _connect(self.file)
                weakref.finalize(self, engine.dispose).atexit = False
                try:
                    with _begin_writing(engine) as connection:
                        prepare(connection)
                except NewerSchema:
                    raise StateUnavailable(
                        f"{self.file} was written by a newer version of cbir; install that version"
                    ) from None
                self._engine = engine
            return self._engine

    def _create_file(self) -> None:
        folder = self.file.parent
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.file, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
            try:
                status = os.fstat(file)
                if status.st_size == 0:
                    give_to_owner(file, folder)
            finally:
                os.close(file)
            problem = permission_problem(self.file, status.st_mode)
        except OSError as error:
            raise StateUnavailable(f"state_folder {folder} cannot be written: {error.strerror}") from error
        if problem:
            raise StateUnavailable(problem)


@contextmanager
def _begin_writing(engine: Engine) -> Iterator[Connection]:
    with engine.connect().execution_options(cbir_writing=True) as connection, connection.begin():
        yield connection


def _connect(file: Path) -> Engine:
    """Return an engine for the SQLite file; all that is particular to SQLite is in this function."""
    address = URL.create("sqlite", database=str(file))
    # As many connections as there are threads; values stay out of error messages.
    engine = create_engine(address, max_overflow=-1, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin explicitly, below
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that reads before it writes would fail if another one wrote in between.
        writing = connection.get_execution_options().get("cbir_writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def install(app: Flask, database: StateDatabase) -> None:
    """Let the views of `app` use `database`."""
    app.extensions[EXTENSION] = database


def state_database() -> StateDatabase:
    """Return the state database of the current app."""
    return cast(StateDatabase, current_app.extensions[EXTENSION])
