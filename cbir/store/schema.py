"""Tables of a collection's SQLite file, and connections to it. All other files are derived from it."""

import math
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Engine,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    create_engine,
    event,
    inspect,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError

FORMAT = 1  # of these tables and of the snapshot; raised when an older program could misread a newer file
DATABASE = "collection.sqlite"
AT_ONCE = 10_000  # bound parameters of one statement; SQLite takes 32,766
SECRET = "patient.key"
PRAGMAS = "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON", "busy_timeout=10000"

tables = MetaData()

meta = Table("meta", tables, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

images = Table(
    "images",
    tables,
    Column("number", Integer, primary_key=True),  # never used twice (AUTOINCREMENT), ascending with time
    Column("image_id", Text, nullable=False, unique=True),
    Column("content_hash", Text, nullable=False, index=True),
    Column("source", Text, nullable=False, index=True),
    Column("source_stamp", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("frame", Integer),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("study", Text, nullable=False, index=True),
    Column("series", Text, nullable=False),
    Column("instance", Text, nullable=False, index=True),
    Column("burned_in", Integer, nullable=False),
    Column("patient_key", Text, index=True),
    Column("sop_class", Text, nullable=False, server_default=""),
    sqlite_autoincrement=True,
)

# A separate table, so that reading records does not page through vectors.
vectors = Table(
    "vectors",
    tables,
    Column("number", ForeignKey("images.number", ondelete="CASCADE"), primary_key=True),
    Column("vector", LargeBinary, nullable=False),  # raw descriptor values, float32, little-endian
)

labels = Table(
    "labels",
    tables,
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("number", ForeignKey("images.number", ondelete="CASCADE"), nullable=False, index=True),
    PrimaryKeyConstraint("key", "value", "number"),
    sqlite_with_rowid=False,
)

# Numbers deleted since the snapshot was written, which still contains their vectors.
tombstones = Table("tombstones", tables, Column("number", Integer, primary_key=True))

# Content that a user deleted: indexing its folder again does not add it.
forgotten = Table(
    "forgotten",
    tables,
    Column("content_hash", Text, primary_key=True),
    Column("patient_key", Text, index=True),  # so that erasing the patient forgets this too
)

# History of changes. Images added together have consecutive numbers.
changes = Table(
    "changes",
    tables,
    Column("change", Integer, primary_key=True),
    Column("at", Text, nullable=False),  # UTC, ISO 8601
    Column("who", Text, nullable=False),
    Column("what", Text, nullable=False),  # one of change_history.KINDS
    Column("images", Integer, nullable=False),
    Column("first", Integer),  # numbers of the images added
    Column("last", Integer),
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
)

# Replies to requests that must not be carried out twice.
replies = Table(
    "replies",
    tables,
    Column("key", Text, primary_key=True),  # hash of the client's idempotency key
    Column("request", Text, nullable=False),  # hash of the request
    Column("status", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Integer, nullable=False),  # seconds since 1970
)


def _as_number(text: str) -> float | None:
    """Convert a label's value to a finite number; None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def complete(engine: Engine) -> None:
    """Create the tables and columns that an older collection of this format may lack."""
    if not inspect(engine).has_table(replies.name):
        tables.create_all(engine)
    if not _has_sop_class(engine):
        try:
            with engine.begin() as connection:
                connection.exec_driver_sql("CREATE INDEX IF NOT EXISTS ix_images_study ON images (study)")
                connection.exec_driver_sql("ALTER TABLE images ADD COLUMN sop_class TEXT DEFAULT '' NOT NULL")
        except OperationalError:
            if not _has_sop_class(engine):  # unless another process was faster
                raise


def _has_sop_class(engine: Engine) -> bool:
    return any(column["name"] == "sop_class" for column in inspect(engine).get_columns(images.name))


def connect(folder: Path) -> Engine:
    """Return an engine for the collection in `folder`, with write-ahead log and durable commits."""
    address = URL.create("sqlite", database=str(folder / DATABASE))
    # As many connections as there are threads; values stay out of error messages.
    engine = create_engine(address, max_overflow=-1, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin explicitly, below
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.create_function("as_number", 1, _as_number, deterministic=True)

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine
