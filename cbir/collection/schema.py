"""The tables of a collection's SQLite file, and connections to it. SQLite is the truth; all else is derived."""

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
)
from sqlalchemy.engine import URL

FORMAT = 1  # of these tables and of the snapshot; raised when an older program could misread a newer file
DATABASE = "collection.sqlite"

tables = MetaData()

meta = Table("meta", tables, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

images = Table(
    "images",
    tables,
    Column("number", Integer, primary_key=True),  # never given twice (AUTOINCREMENT), ascending with time
    Column("image_id", Text, nullable=False, unique=True),
    Column("content_hash", Text, nullable=False, index=True),
    Column("source", Text, nullable=False, index=True),
    Column("source_stamp", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("frame", Integer),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("study", Text, nullable=False),
    Column("series", Text, nullable=False),
    Column("instance", Text, nullable=False, index=True),
    Column("burned_in", Integer, nullable=False),
    Column("patient_key", Text, index=True),
    sqlite_autoincrement=True,
)

# Apart from `images`, so that looking through records does not page through vectors.
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

# Numbers deleted since the snapshot was made, which still holds their vectors.
tombstones = Table("tombstones", tables, Column("number", Integer, primary_key=True))

# Pictures that a person deleted: indexing their folder again does not bring them back.
forgotten = Table("forgotten", tables, Column("content_hash", Text, primary_key=True))


def connect(folder: Path) -> Engine:
    """An engine for the collection in `folder`: write-ahead log, every commit on the disk before it returns."""
    engine = create_engine(URL.create("sqlite", database=str(folder / DATABASE)))

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, below
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "secure_delete = ON",
            "busy_timeout = 10000",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine
