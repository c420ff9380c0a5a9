"""Connections to the state database, and copying of one to another."""

import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

from sqlalchemy import Connection, Engine, Table, func, insert, select
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from cbir.errors import InvalidInput, StorageFull
from cbir.settings import Settings
from cbir.store.base.damage import DAMAGE, raise_when_full
from service.state.postgresql import PostgresqlSchema, continue_numbers
from service.state.schema import VERSION_TABLE, StateUnavailable, UnknownSchema, all_tables, prepare
from service.state.sqlite_file import COPY_HELPS, SqliteFile

if TYPE_CHECKING:
    from flask import Flask

EXTENSION = "cbir-state"
DOWN_SECONDS = 1.0  # until a server that does not answer is asked again: each try may take seconds
BATCH = 100  # rows of a statement; one may have a picture


class StateDatabase:
    """Database of the service's state, opened by its first use. Thread-safe; processes may share it.

    Parameters
    ----------
    folder : Path
        State folder, which has the database unless `url` is given; created if it does not exist.
    url : str, optional
        The setting `state_database`.
    password_file : Path, optional
        File with its password.
    segmentations : Path, optional
        Folder of segmentations: what is there shows that there was a database.

    Raises
    ------
    InvalidInput
        If psycopg is not installed, which `url` needs.
    """

    def __init__(
        self,
        folder: Path,
        url: str | None = None,
        password_file: Path | None = None,
        segmentations: Path | None = None,
    ) -> None:
        self._place = PostgresqlSchema(url, password_file) if url else SqliteFile(folder, segmentations)
        self._folder = folder
        self._lock = Lock()
        self._engine: Engine | None = None
        self._prepared = False
        self._down_until = 0.0

    @property
    def shared(self) -> bool:
        """True if services on other machines may use it; then the memory of this process does not count."""
        return self._place.shared

    def exists(self) -> bool:
        """Return False if nothing has been stored yet."""
        return self._place.exists()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection for queries, which all see the database as the first one does.

        Raises StateUnavailable.
        """
        with (
            self._translated_errors(),
            self._open().connect().execution_options(**self._place.reading_options) as connection,
        ):
            yield connection

    @contextmanager
    def writing(self, *, in_turn: bool = True) -> Iterator[Connection]:
        """Yield a connection for a transaction: committed at the end of the block, rolled back after an error.

        in_turn: transactions wait for one another. False: those of PostgreSQL lock what they change only.

        Raises StateUnavailable, and StorageFull. IntegrityError passes: its meaning depends on the table.
        """
        with self._translated_errors(), _begin_writing(self._open(), in_turn) as connection:
            yield connection

    def drop_old_rows(self) -> None:
        """Remove what was deleted or changed from the database's files, where it could still be read.

        Raises StateUnavailable. A reader that still needs the old rows delays it.
        """
        with self._translated_errors():
            self._place.drop_old_rows(self._open())

    def check(self) -> None:
        """Raise StateUnavailable if the database cannot be written."""
        with self.writing():
            pass

    def problems(self) -> list[str]:
        """Read all of the database, and return what is damaged; an empty list if nothing has been stored yet."""
        if not self.exists():
            return []
        tables = all_tables()
        try:
            with self.reading() as connection:
                return self._place.problems(connection, tables)
        except (StateUnavailable, StorageFull, InvalidInput) as error:
            return [str(error)]
        except DAMAGE:  # whose text may quote rows
            return [f"{self._place.name} is damaged; {COPY_HELPS}"]

    def accept_loss(self) -> str | None:
        """Start again without a lost file, or without what follows damage of its log; return the loss, if any."""
        with self._translated_errors():
            loss = self._place.accept_loss()
        if loss:
            with self.reading():  # which makes what is missing
                pass
        return loss

    def accept_rows(self) -> list[str]:
        """Take rows that are not what was written as they are; return the names of their tables."""
        if not self.exists():
            return []
        tables = all_tables()
        with self.writing() as connection:
            return self._place.accept_rows(connection, tables)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            with raise_when_full(self._folder):
                yield
        except IntegrityError:
            raise
        except DataError as error:
            raise InvalidInput(
                f"the state database cannot store this: {self._place.reason(error)}"
            ) from error
        except DBAPIError as error:
            if self._place.is_down(error):
                self._down_until = time.monotonic() + DOWN_SECONDS
            raise StateUnavailable(
                f"{self._place.name} cannot be used: {self._place.reason(error)}"
            ) from error

    def _open(self) -> Engine:
        self._refuse_while_down()
        if self._prepared and self._engine:
            return self._engine
        with self._lock:
            self._refuse_while_down()  # another thread may have tried meanwhile
            if self._engine is None:
                self._engine = self._place.connect()
                weakref.finalize(self, self._engine.dispose).atexit = False
            if not self._prepared:
                self._prepare(self._engine)
                self._prepared = True
            return self._engine

    def _refuse_while_down(self) -> None:
        if time.monotonic() < self._down_until:
            raise StateUnavailable(f"{self._place.name} does not answer")

    def _prepare(self, engine: Engine) -> None:
        self._place.create()
        try:
            with _begin_writing(engine) as connection, self._place.changing_schema(connection):
                prepare(connection)
            self._place.note_made()
        except UnknownSchema as error:
            raise StateUnavailable(f"{self._place.name} {error}") from None


@contextmanager
def _begin_writing(engine: Engine, in_turn: bool = True) -> Iterator[Connection]:
    options = {"cbir_writing": True, "cbir_in_turn": in_turn}
    with engine.connect().execution_options(**options) as connection, connection.begin():
        yield connection


def open_state(settings: Settings) -> StateDatabase:
    """Return the state database of `settings`; raises InvalidInput if a package that it needs is missing."""
    return StateDatabase(
        settings.state_folder,
        settings.state_database,
        settings.state_database_password_file,
        settings.annotation_folder,
    )


def install(app: "Flask", database: StateDatabase) -> None:
    """Let the views of `app` use `database`."""
    app.extensions[EXTENSION] = database


def state_database() -> StateDatabase:
    """Return the state database of the current app."""
    from flask import current_app  # of the extra serve, which erasing a patient does without

    return cast(StateDatabase, current_app.extensions[EXTENSION])


def copy_state(source: StateDatabase, target: StateDatabase) -> dict[str, int]:
    """Copy all rows, in one transaction, and return their number by table.

    Parameters
    ----------
    source, target : StateDatabase
        Databases of the same version of cbir, or older ones, which are upgraded; `target` must be empty.

    Raises
    ------
    InvalidInput
        If `target` has rows.
    """
    copied = [table for table in all_tables() if table.name != VERSION_TABLE]
    with source.reading() as read, target.writing() as write:
        for table in copied:
            if _count(write, table):
                raise InvalidInput(
                    f"the table {table.name} of state_database has rows already; copy before a service uses it, "
                    "or name a new schema behind it with ?schema=NAME"
                )
        for table in copied:
            for rows in read.execute(select(table)).partitions(BATCH):
                write.execute(insert(table), [dict(row._mapping) for row in rows])
            continue_numbers(write, table)
        return {table.name: _count(write, table) for table in copied}


def _count(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()
