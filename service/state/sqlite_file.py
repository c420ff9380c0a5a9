"""State database in a file of the state folder, which no other user may change, nor read.

Sums show damage of it: of the rows of each table, and of the definitions of tables and triggers. They are those of a
collection's history, see `cbir.store.base.damage`: triggers keep them, within the transaction of the change.
PostgreSQL has checksums of its own.
"""

import errno
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from sqlalchemy import Column, Connection, Engine, MetaData, Table, Text, create_engine, event, inspect
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, DBAPIError

from cbir.errors import access_denied
from cbir.store.base.collection_folder import denied_database
from cbir.store.base.damage import (
    changed_tables,
    current_total,
    has_other_types,
    keep_totals,
    raise_when_full,
    read_totals,
    restore_types,
    store_total,
    total_triggers,
)
from cbir.store.base.schema import row_totals
from cbir.store.base.statements import float_bytes, row_checksum
from cbir.store.safety.database_files import log_problem
from cbir.system.files import private_folder
from cbir.system.ownership import create_file, open_or_create
from service.state.schema import StateUnavailable, tables

FILE = "state.sqlite"
COPY_HELPS = "restore it from a copy"
TABLES_MARK = "state.sqlite.made"  # there once the file has tables
AUDIT_LOGS = "audit.jsonl*"  # empty, with a key and a note of no line, before the first request
PRAGMAS = (
    "busy_timeout=10000",  # first: another process may be creating the tables
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "secure_delete=ON",
)
definitions = Table(
    "sqlite_master", MetaData(), *[Column(name, Text) for name in ("type", "name", "tbl_name", "sql")]
)
TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
TOKENS_LOCK, SECOND_MARK = "tokens.json.lock", b"state was made\n"  # in that file, if there are tokens

CREATING = Lock()  # held by the thread that has the new file open: another one's SQLite opens it after that
BUSY_SECONDS = 10.0


def _set_pragma(connection: sqlite3.Connection, pragma: str) -> None:
    """Set a pragma; waits for another connection that turns the log of a new file on, which SQLite does not."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > end:
                raise
            time.sleep(0.01)


def permission_problem(file: Path, mode: int) -> str | None:
    """Return why other users could read `file` of this mode, or put their own in its place; None if they cannot."""
    if os.name == "nt":  # permissions are not in the mode there
        return None
    if mode & 0o007:
        return f"{file} is accessible to every user of the machine; chmod 600 it"
    if mode & 0o020:
        return f"{file} is writable for its group; chmod 600 it"
    if file.parent.stat().st_mode & 0o002:
        return f"the folder {file.parent} is writable for every user of the machine; chmod 700 it"
    return None


@contextmanager
def opened_for_owner(file: Path, flags: int) -> Iterator[int]:
    """Yield an open file, which is closed at the end of the block; root gives a new one to its folder's owner."""
    opened = create_file(file, flags) if flags & os.O_EXCL else open_or_create(file, flags & ~os.O_CREAT)
    try:
        yield opened
    finally:
        os.close(opened)


class SqliteFile:
    """The file of a state folder.

    segmentations: folder of the segmentations that people sent, which has a folder for each image.
    """

    shared = False
    reading_options: ClassVar[dict[str, Any]] = {}

    def __init__(self, folder: Path, segmentations: Path | None = None) -> None:
        self.folder = folder
        self.file = folder / FILE
        self.name = str(self.file)
        self._segmentations = segmentations
        # Now: later the audit log may have lines of this process, which has not made the file yet.
        self._remains = [] if self._has_content() else self._find_remains()

    def exists(self) -> bool:
        """Return True if something may be stored there, or was before the file was lost."""
        return self.file.is_file() or bool(self._remains) or self._made.exists()

    def _has_content(self) -> bool:
        return self.file.is_file() and self.file.stat().st_size > 0

    def connect(self) -> Engine:
        """Return an engine for the file."""
        address = URL.create("sqlite", database=str(self.file))
        # As many connections as there are threads; values stay out of error messages.
        engine = create_engine(address, max_overflow=-1, hide_parameters=True)

        @event.listens_for(engine, "connect")
        def _configure(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # transactions begin explicitly, below
            for pragma in PRAGMAS:
                _set_pragma(connection, pragma)
            connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
            connection.create_function("float_bytes", 1, float_bytes, deterministic=True)

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            # A transaction that reads before it writes would fail if another one wrote in between.
            writing = connection.get_execution_options().get("cbir_writing")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

        return engine

    def create(self) -> None:
        """Create the file unless it exists; raises StateUnavailable, also if other users could change it."""
        try:
            self._check_not_lost()
            self._check_log()
            with raise_when_full(self.folder):
                status = self._create_file()
            problem = permission_problem(self.file, status.st_mode)
        except PermissionError as error:
            raise StateUnavailable(str(access_denied(error, self.file, writing=True))) from error
        except OSError as error:
            raise StateUnavailable(
                f"state_folder {self.folder} cannot be written: {error.strerror}"
            ) from error
        if problem:
            raise StateUnavailable(problem)

    def _create_file(self) -> os.stat_result:
        private_folder(self.folder)
        # Never open a file that is there: closing it would end SQLite's locks of this process, and another process
        # would delete the log under it (https://www.sqlite.org/howtocorrupt.html, 2.2).
        with CREATING:
            if not self.file.exists():
                with (
                    suppress(FileExistsError),
                    opened_for_owner(self.file, os.O_RDWR | os.O_CREAT | os.O_EXCL),
                ):
                    pass
        if not os.access(self.file, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return self.file.stat()

    def _check_not_lost(self) -> None:
        """Raise StateUnavailable if the file is missing or empty, though tables were created in it."""
        if problem := self._loss():
            way = "" if self._remains else f"delete {self._made.name} to "
            command = " by `cbir admin state verify --accept`" if self._remains else ""
            raise StateUnavailable(
                f"{problem}; {COPY_HELPS}, or {way}start without the saved cases, cohorts, jobs and logins{command}"
            )

    def _loss(self) -> str | None:
        if self._has_content() or not (self._remains or self._made.exists()):
            return None
        used = f", though a service has used it ({', '.join(self._remains)})" if self._remains else ""
        return f"{self.file} is missing or empty{used}"

    def _find_remains(self) -> list[str]:
        """Return the names of other files which show that a service has answered requests with this folder.

        Tokens themselves do not: they are created before the first start. Nor does an audit log without lines.
        """
        marks = [TOKENS_LOCK] if self._is_noted_with_tokens() else []
        sizes = {path.name: path.stat().st_size for path in self.folder.glob(AUDIT_LOGS) if path.is_file()}
        logs = [name for name, size in sizes.items() if size and not name.endswith((".key", ".head"))]
        sent = self._segmentations and any(self._segmentations.glob("*/*"))
        return sorted([*marks, *logs, *([f"{self._segmentations}"] if sent else [])])

    def _check_log(self) -> None:
        """Raise StateUnavailable if SQLite would drop changes when it opens the file."""
        if problem := log_problem(self.file):
            raise StateUnavailable(
                f"{problem}; {COPY_HELPS}, or keep what is before it with `cbir admin state verify --accept`"
            )

    def accept_loss(self) -> str | None:
        """Start again without a lost file, or without what follows damage of its log; return the loss, if any."""
        if loss := self._loss():
            self._remains = []
            self._made.unlink(missing_ok=True)
            return loss
        if problem := log_problem(self.file):
            with closing(sqlite3.connect(self.file)) as connection:
                (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise StateUnavailable(f"another process has {self.file} open; stop the service first")
        return problem

    def note_made(self) -> None:
        """Note that tables were created."""
        with suppress(OSError):  # a folder where nothing more can be written
            with opened_for_owner(self._made, os.O_WRONLY | os.O_CREAT):
                pass
            lock = self.folder / TOKENS_LOCK
            if lock.exists() and lock.stat().st_size and not self._is_noted_with_tokens():
                with opened_for_owner(lock, os.O_WRONLY | os.O_APPEND) as file:
                    os.write(file, SECOND_MARK)  # `rm state.sqlite*` leaves it

    def _is_noted_with_tokens(self) -> bool:
        try:
            return SECOND_MARK in (self.folder / TOKENS_LOCK).read_bytes()
        except OSError:
            return False

    @property
    def _made(self) -> Path:
        return self.folder / TABLES_MARK

    @contextmanager
    def changing_schema(self, connection: Connection) -> Iterator[None]:
        """Keep the sums of tables that the block creates or changes."""
        sound = has_sound_definitions(connection)
        yield
        keep_sums(connection, tables.sorted_tables, sound)

    def problems(self, connection: Connection, tables: Sequence[Table]) -> list[str]:
        """Check the structure of the file, and compare rows and definitions with their sums."""
        report = connection.exec_driver_sql("PRAGMA integrity_check(10)").scalars()
        lines = [f"{self.file} is damaged ({line}); {COPY_HELPS}" for line in report if line != "ok"]
        if connection.exec_driver_sql("PRAGMA foreign_key_check").first():
            lines.append(f"rows of {self.file} refer to rows that are gone; {COPY_HELPS}")
        for name in damaged_tables(connection, tables):
            if name == definitions.name:
                lines.append(f"tables in {self.file} are not defined as they were; {COPY_HELPS}")
            else:
                lines.append(
                    f"rows of the table {name} in {self.file} are not what was written; {COPY_HELPS}, or keep them "
                    "as they are with `cbir admin state verify --accept`"
                )
        return lines

    def accept_rows(self, connection: Connection, tables: Sequence[Table]) -> list[str]:
        """Let the sums be those of the rows as they are; return the names of the tables whose sums differed."""
        names = set(damaged_tables(connection, tables))
        damaged = [table for table in tables if table.name in names]
        for table in damaged:
            restore_types(connection, table)
            store_total(connection, table.name, current_total(connection, table))
        return [table.name for table in damaged]

    def drop_old_rows(self, engine: Engine) -> None:
        """Write what was deleted or changed out of the files: SQLite's log keeps it until then."""
        with engine.connect() as connection:
            driver = connection.connection.driver_connection  # a pragma does not work in a transaction
            assert driver is not None
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def reason(self, error: DBAPIError) -> str:
        """Return the reason of an error in a line."""
        if denied := denied_database(self.file, error.orig):
            return str(denied)
        damaged = type(error) is DatabaseError  # and not one of its kinds, such as for a file that is locked
        return f"{error.orig}; {COPY_HELPS}" if damaged else str(error.orig)

    def is_down(self, _error: DBAPIError) -> bool:
        """Return False: a file needs no server."""
        return False


def damaged_tables(connection: Connection, tables: Iterable[Table]) -> list[str]:
    """Return the names of the tables whose rows are not what was written; that of `definitions` for theirs."""
    read = [definitions, *tables]
    changed = set(changed_tables(connection, read))
    return [table.name for table in read if table.name in changed or has_other_types(connection, table)]


def has_sound_definitions(connection: Connection) -> bool:
    """Return whether tables and triggers are defined as they were stored; True if they have no sum yet."""
    return not inspect(connection).has_table(row_totals.name) or not (
        changed_tables(connection, [definitions]) or has_other_types(connection, definitions)
    )


def keep_sums(connection: Connection, tables: Sequence[Table], sound: bool) -> None:
    """Store the sums of `tables`, and keep them from now on, unless they are kept.

    Parameters
    ----------
    connection : Connection
        In a transaction, in which tables may have been created or changed.
    tables : sequence of Table
        Tables that exist.
    sound : bool
        Whether the definitions were sound before that.
    """
    if not sound:  # the sums that are there show the damage
        return
    row_totals.create(connection, checkfirst=True)
    _drop_earlier(connection, tables)
    keep_totals(connection, tables)
    total = current_total(connection, definitions)
    if read_totals(connection).get(definitions.name) != total:
        store_total(connection, definitions.name, total)


def _drop_earlier(connection: Connection, tables: Iterable[Table]) -> None:
    """Drop sums and triggers of tables that had other columns."""
    defined = {row.name: row.sql for row in connection.exec_driver_sql(TRIGGERS)}
    for table in tables:
        expected = total_triggers(table)
        earlier = {name: defined[name] for name in expected if name in defined}
        if earlier and earlier != expected:
            for name in earlier:
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
            connection.exec_driver_sql("DELETE FROM row_totals WHERE name = ?", (table.name,))
