"""Bring collections of older storage formats up to date, in place."""

from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store import metadata, schema
from cbir.store.checksums import COLUMN, checksum_sql
from cbir.store.damage import raise_when_damaged
from cbir.store.last_good import NAME as COPY
from cbir.store.writer_lock import writer_lock

OLDEST = 1  # format that can be brought up to date


def bring_up_to_date(folder: Path, engine: Engine) -> None:
    """Upgrade the collection in `folder` and its last good copy to the present format, if they are older.

    Format 2 added checksums of rows; they are computed from the rows as they are. One transaction: the collection has
    the old format or the new one. Raises InvalidInput for formats that this program does not know, CollectionBusy if
    another process writes.
    """
    if _read_format(engine, folder) == schema.FORMAT:
        schema.complete(engine)
        return
    with writer_lock(folder):
        if _read_format(engine, folder) != schema.FORMAT:  # unless another process was faster
            schema.complete(engine)
            with engine.begin() as connection:
                _add_checksums(connection)
            with closing(engine.raw_connection()) as connection:  # outside a transaction
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")  # as large as the database
    copy = folder / COPY
    if (copy / schema.DATABASE).is_file():
        copy_engine = schema.connect(copy)
        try:
            with suppress(CollectionDamaged, InvalidInput), raise_when_damaged(copy):
                bring_up_to_date(copy, copy_engine)
        finally:
            copy_engine.dispose()


def _read_format(engine: Engine, folder: Path) -> int:
    """Return the format, 1 or the present one; raises InvalidInput for others."""
    with engine.connect() as connection:
        value = connection.exec_driver_sql("SELECT value FROM meta WHERE key = 'format'").scalar()
    if value is None:
        raise CollectionDamaged("the collection's database does not contain its format")
    version = int(value)
    if OLDEST <= version <= schema.FORMAT:
        return version
    newer, older = (
        "a newer cbir wrote it: upgrade this one",
        "use the version of cbir that wrote it, or index again",
    )
    raise InvalidInput(
        f"{folder} has storage format {version}, this program reads {schema.FORMAT}; "
        f"{newer if version > schema.FORMAT else older}"
    )


def _add_checksums(connection: Connection) -> None:
    schema.tables.create_all(connection)
    today = datetime.now(UTC).isoformat(timespec="seconds")
    connection.exec_driver_sql("ALTER TABLE forgotten ADD COLUMN at TEXT")
    connection.exec_driver_sql("UPDATE forgotten SET at = ?", (today,))
    metadata_rows, *tables = schema.CHECKED
    for table in schema.CHECKED:
        columns = {column["name"] for column in inspect(connection).get_columns(table.name)}
        if COLUMN not in columns:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {COLUMN} INTEGER")
    for table in tables:
        connection.exec_driver_sql(f"UPDATE {table.name} SET {COLUMN} = {checksum_sql(table)}")
    metadata.set_value(connection, "format", str(schema.FORMAT))
    connection.exec_driver_sql(f"UPDATE meta SET {COLUMN} = {checksum_sql(metadata_rows)}")
