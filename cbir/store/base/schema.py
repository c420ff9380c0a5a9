"""Tables of a collection's database, and connections to it if it is a SQLite file."""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    ForeignKey,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    select,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, DisconnectionError

from cbir.store.base.collection_folder import denied_database, open_file, stamp_to_read
from cbir.store.base.reserved_labels import as_number
from cbir.store.base.statements import COLUMN, WHOLE_NUMBER, is_postgresql, row_checksum
from cbir.system.threads import checkpoint

FORMAT = 2  # of these tables and of the snapshot; raised when an older program could misread a newer file

DATABASE = "collection.sqlite"

COPY = "last-good"  # folder of the last good copy, see `last_good`

COPIES = (COPY, f"{COPY}.previous")  # the second is left if a replacement was interrupted

AT_ONCE = 10_000  # bound parameters of one statement; SQLite takes 32,766

SECRET = "patient.key"

CHECKED_STEPS = 100_000  # of SQLite's virtual machine between two checkpoints: a few milliseconds

PRAGMAS = (
    "foreign_keys=ON",
    "recursive_triggers=ON",  # else those of a deleted row would not run if the row is replaced
    "busy_timeout=10000",
)

WRITING = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON")

READ_STAMP = "read_stamp"  # of a pooled connection that can only read

tables = MetaData()


def _checksum() -> Column[int]:
    """Return the column of a table whose rows are checked; empty only if another program added the row."""
    return Column(COLUMN, WHOLE_NUMBER)


meta = Table(
    "meta",
    tables,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    _checksum(),
)

images = Table(
    "images",
    tables,
    Column(
        "number", WHOLE_NUMBER, primary_key=True, autoincrement=False
    ),  # never used twice, ascending with time
    Column("image_id", Text, nullable=False, unique=True),
    Column("content_hash", Text, nullable=False, index=True),
    Column("source", Text, nullable=False, index=True),
    Column("source_stamp", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("frame", WHOLE_NUMBER),
    Column("width", WHOLE_NUMBER, nullable=False),
    Column("height", WHOLE_NUMBER, nullable=False),
    Column("study", Text, nullable=False, index=True),
    Column("series", Text, nullable=False),
    Column("instance", Text, nullable=False, index=True),
    Column("burned_in", WHOLE_NUMBER, nullable=False),
    Column("patient_key", Text, index=True),
    Column("sop_class", Text, nullable=False, server_default=""),
    _checksum(),
    sqlite_autoincrement=True,
)

# A separate table, so that reading records does not page through vectors.
vectors = Table(
    "vectors",
    tables,
    Column("number", ForeignKey("images.number", ondelete="CASCADE"), primary_key=True),
    Column("vector", LargeBinary, nullable=False),  # raw descriptor values, float32, little-endian
    _checksum(),
)

labels = Table(
    "labels",
    tables,
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("number", ForeignKey("images.number", ondelete="CASCADE"), nullable=False, index=True),
    _checksum(),
    PrimaryKeyConstraint("key", "value", "number"),
    sqlite_with_rowid=False,
)

# Numbers deleted since the snapshot was written, which still contains their vectors.
tombstones = Table(
    "tombstones", tables, Column("number", WHOLE_NUMBER, primary_key=True, autoincrement=False)
)

# Content that a user deleted: indexing its folder again does not add it.
forgotten = Table(
    "forgotten",
    tables,
    Column("content_hash", Text, primary_key=True),
    Column("patient_key", Text, index=True),  # so that erasing the patient removes this too
    Column("at", Text),  # UTC, ISO 8601
    _checksum(),
)

# Content of erased patients: keyed hashes, from which neither image nor patient can be found.
erased = Table("erased", tables, Column("mark", Text, primary_key=True), _checksum(), sqlite_with_rowid=False)

# History of changes. Images added together have consecutive numbers.
changes = Table(
    "changes",
    tables,
    Column("change", WHOLE_NUMBER, primary_key=True),
    Column("at", Text, nullable=False),  # UTC, ISO 8601
    Column("who", Text, nullable=False),
    Column("what", Text, nullable=False),  # one of change_history.KINDS
    Column("images", WHOLE_NUMBER, nullable=False),
    Column("first", WHOLE_NUMBER),  # numbers of the images added
    Column("last", WHOLE_NUMBER),
    sqlite_autoincrement=True,
)

# Images deleted or relabelled by a change; erasing a patient removes them.
changed_images = Table(
    "changed_images",
    tables,
    Column("change", ForeignKey("changes.change", ondelete="CASCADE"), nullable=False),
    Column("image_id", Text, nullable=False),
    PrimaryKeyConstraint("change", "image_id"),
    sqlite_with_rowid=False,
)

# Thumbnails of uploaded images, which have no file to render.
thumbnails = Table(
    "thumbnails",
    tables,
    Column("number", ForeignKey("images.number", ondelete="CASCADE"), primary_key=True),
    Column("picture", LargeBinary, nullable=False),  # JPEG
    _checksum(),
)

# DICOM instances with a picture that the collection has from another instance, so that they count as stored too.
instance_copies = Table(
    "instance_copies",
    tables,
    Column("instance", Text, primary_key=True),
    Column("sop_class", Text, nullable=False),
    Column("patient_key", Text, index=True),  # so that erasing the patient erases this too
    Column("number", ForeignKey("images.number", ondelete="CASCADE"), nullable=False, index=True),
    _checksum(),
    sqlite_with_rowid=False,
)

# Replies to requests that must not be carried out twice.
replies = Table(
    "replies",
    tables,
    Column("key", Text, primary_key=True),  # hash of the client's idempotency key
    Column("request", Text, nullable=False),  # hash of the request
    Column("status", WHOLE_NUMBER, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", WHOLE_NUMBER, nullable=False),  # seconds since 1970
)

# Log of changes, if a backup is to be continued: see `change_log`.
change_log = Table(
    "change_log",
    tables,
    Column("entry", WHOLE_NUMBER, primary_key=True),
    Column("at", Text),  # UTC, ISO 8601; of the entry that ends a transaction
    Column("row", Text),  # JSON
    sqlite_autoincrement=True,
)

# Sum of the checksums of each table below, which triggers keep: it shows missing rows. See `row_totals`.
row_totals = Table(
    "row_totals",
    tables,
    Column("name", Text, primary_key=True),
    Column("total", WHOLE_NUMBER, nullable=False),
    sqlite_with_rowid=False,
)

# Files in the folder `originals` that images need, so that a lost one is noticed.
original_files = Table("originals", tables, Column("name", Text, primary_key=True), _checksum())

LISTS = (forgotten, erased, instance_copies, original_files)

HISTORY = (changes, changed_images, replies, change_log)  # their rows have none: only their sum is known

CHECKED = (meta, images, vectors, labels, thumbnails, *LISTS)  # tables whose rows have a checksum


def _is_cancelled() -> bool:
    """Return whether SQLite is to interrupt its statement; errors of a callback would not reach the caller."""
    try:
        checkpoint()
    except Exception:
        return True
    return False


def connect(folder: Path) -> Engine:
    """Return an engine for the collection in `folder`, with write-ahead log and durable commits.

    The database must exist. Where nothing can be written it is only read.
    """
    path = folder / DATABASE
    address = URL.create("sqlite", database=str(path))
    # As many connections as there are threads; values stay out of error messages.
    engine = create_engine(address, creator=lambda: open_file(path), max_overflow=-1, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, record: Any) -> None:
        record.info[READ_STAMP] = stamp_to_read(path)
        connection.isolation_level = None  # transactions begin explicitly, below
        try:
            for pragma in PRAGMAS if record.info[READ_STAMP] else (*WRITING, *PRAGMAS):
                connection.execute(f"PRAGMA {pragma}")
        except UnicodeDecodeError as error:  # the message quotes the damaged schema
            raise sqlite3.DatabaseError("the database schema is damaged") from error
        connection.create_function("as_number", 1, as_number, deterministic=True)
        connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
        connection.set_progress_handler(_is_cancelled, CHECKED_STEPS)

    @event.listens_for(engine, "checkout")
    def _renew(_connection: Any, record: Any, _proxy: Any) -> None:
        if record.info[READ_STAMP] and record.info[READ_STAMP] != stamp_to_read(path):
            raise DisconnectionError  # the pool opens the file again

    @event.listens_for(engine, "handle_error")
    def _report_reason(context: Any) -> None:
        if denied := denied_database(path, context.original_exception):
            raise denied
        if str(context.original_exception) == "interrupted":
            checkpoint()  # raises the reason in place of SQLite's error
        if isinstance(context.original_exception, UnicodeDecodeError):  # in a message, or in a damaged row
            raise DatabaseError(None, None, context.original_exception)

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    @event.listens_for(engine, "commit")
    def _end_logged_transaction(connection: Any) -> None:
        last = connection.exec_driver_sql("SELECT row FROM change_log ORDER BY entry DESC LIMIT 1").scalar()
        if last is not None:  # this transaction has changed rows, and the collection is logged
            at = datetime.now(UTC).isoformat(timespec="microseconds")
            connection.exec_driver_sql("INSERT INTO change_log (at) VALUES (?)", (at,))

    return engine


quarantine = Table(
    "quarantine",
    MetaData(),
    Column("image_id", Text, primary_key=True),  # hash of the content
    Column("record", Text, nullable=False),  # JSON
    Column("vector", LargeBinary, nullable=False),  # raw, float32, little-endian
    Column("picture", LargeBinary, nullable=False),  # JPEG
    Column("source", Text, nullable=False, index=True),
    Column("patient_key", Text, index=True),
    Column("at", Text, nullable=False),  # UTC, ISO 8601
    Column("who", Text, nullable=False),
    Column(COLUMN, WHOLE_NUMBER),  # of record, vector and picture
)


def has_quarantine(connection: Connection) -> bool:
    """Return whether the table is there."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'quarantine')"
        if is_postgresql(connection)
        else "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'quarantine')"
    )
    return bool(connection.exec_driver_sql(query).scalar())


def create_quarantine(connection: Connection) -> None:
    """Make the table, unless it is there."""
    if not has_quarantine(connection):
        quarantine.create(connection, checkfirst=False)


def count_quarantined(connection: Connection) -> int:
    """Return the number of quarantined images."""
    if not has_quarantine(connection):
        return 0
    return connection.scalar(select(func.count()).select_from(quarantine)) or 0


def held_sources(connection: Connection, sources: Iterable[str] | None = None) -> set[str]:
    """Return the sources of quarantined images; only those among `sources`, if they are given."""
    if not has_quarantine(connection):
        return set()
    held = set(connection.scalars(select(quarantine.c.source)))
    return held if sources is None else held.intersection(sources)


def quarantined_of(connection: Connection, patient_keys: Sequence[str]) -> list[tuple[str, str]]:
    """Return ids and sources of the quarantined images of patients with these keys."""
    if not has_quarantine(connection):
        return []
    c = quarantine.c
    rows = connection.execute(select(c.image_id, c.source).where(c.patient_key.in_(patient_keys)))
    return [(row.image_id, row.source) for row in rows]


def delete_quarantined(connection: Connection, column: Column[Any], values: Sequence[str]) -> int:
    """Delete the rows with one of these values in a column; return their number."""
    if not values or not has_quarantine(connection):
        return 0
    return sum(
        connection.execute(delete(quarantine).where(column.in_(values[start : start + AT_ONCE]))).rowcount
        for start in range(0, len(values), AT_ONCE)
    )
