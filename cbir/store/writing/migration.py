"""Bring collections of older storage formats up to date, in place.

Triggers then keep an older program, which had the collection open, from storing rows without a checksum, which would
count as damaged.
"""

from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, Engine

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store.base import metadata, schema
from cbir.store.base.collection_folder import writer_lock
from cbir.store.base.damage import raise_when_damaged, restore_advice, start_totals
from cbir.store.base.schema import forgotten, images, labels, meta, thumbnails, vectors
from cbir.store.base.statements import COLUMN, checksum_sql
from cbir.store.records import originals
from cbir.store.safety import change_log
from cbir.store.safety.database_files import require_sound_log
from cbir.store.safety.last_good import NAME as COPY

MESSAGE = "a newer version of cbir has upgraded this collection: restart this program with that version"


def create_guard(connection: Connection) -> None:
    """Refuse rows without a checksum, and changed rows that keep theirs."""
    for table in (meta, images, vectors, labels, thumbnails, forgotten):
        _refuse(connection, f"INSERT ON {table.name}", "NEW.checksum IS NULL")
    for table in (meta, images):
        names = [column.name for column in table.c if column.name != COLUMN]
        changed = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in names)
        _refuse(connection, f"UPDATE ON {table.name}", f"NEW.checksum IS OLD.checksum AND ({changed})")


def _refuse(connection: Connection, event: str, condition: str) -> None:
    name = f"guard_{event.lower().replace(' on ', '_')}"
    connection.exec_driver_sql(
        f"CREATE TRIGGER {name} BEFORE {event} WHEN {condition} BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END"
    )


OLDEST = 1  # format that can be brought up to date

COLUMNS = """
    SELECT tables.name, columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
    WHERE tables.type = 'table'"""


def bring_up_to_date(folder: Path, engine: Engine) -> None:
    """Upgrade the collection in `folder` and its last good copy to the present format, if they are older.

    Format 2 added checksums of rows; they are computed from the rows as they are. One transaction: the collection has
    the old format or the new one. A process that still has the old one open can write no more. Raises InvalidInput
    for formats that this program does not know, CollectionBusy if another process writes, CollectionDamaged if the
    format is damaged or tables are missing.
    """
    if _read_format(engine, folder) == schema.FORMAT:
        _require_tables(engine, folder)
        return
    with writer_lock(folder):
        if _read_format(engine, folder) != schema.FORMAT:  # unless another process was faster
            with engine.begin() as connection:
                _upgrade(connection, folder)
            with closing(engine.raw_connection()) as connection:  # outside a transaction
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")  # as large as the database
    copy = folder / COPY
    if (copy / schema.DATABASE).is_file():
        copy_engine = schema.connect(copy)
        try:
            with suppress(CollectionDamaged, InvalidInput), raise_when_damaged(copy):
                require_sound_log(copy)
                bring_up_to_date(copy, copy_engine)
        finally:
            copy_engine.dispose()


def _columns(connection: Connection) -> set[tuple[str, str]]:
    """Return the tables of the database with their columns."""
    return {(table, column) for table, column in connection.exec_driver_sql(COLUMNS)}


def _require_tables(engine: Engine, folder: Path) -> None:
    needed = {(table.name, column.name) for table in schema.tables.tables.values() for column in table.c}
    with engine.connect() as connection:
        missing = sorted({table for table, _ in needed - _columns(connection)})
    if missing:
        raise CollectionDamaged(
            f"the database {schema.DATABASE} of {folder} lacks tables, or columns of tables ({', '.join(missing)}); "
            f"{restore_advice(folder)}"
        )


def _read_format(engine: Engine, folder: Path) -> int:
    """Return the format, 1 or the present one; raises InvalidInput for others."""
    with engine.connect() as connection:
        if (schema.meta.name, COLUMN) in _columns(connection):
            value = metadata.find_value(connection, "format")
        else:
            value = connection.exec_driver_sql("SELECT value FROM meta WHERE key = 'format'").scalar()
    if value is None:
        raise CollectionDamaged(
            f"the database {schema.DATABASE} of {folder} does not contain its format; {restore_advice(folder)}"
        )
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


def _upgrade(connection: Connection, folder: Path) -> None:
    schema.tables.create_all(connection)
    change_log.stop_log(connection)  # its triggers know the old columns
    connection.exec_driver_sql("CREATE INDEX IF NOT EXISTS ix_images_study ON images (study)")
    columns = _columns(connection)
    for table, definition in _added_columns():
        if (table, definition.split()[0]) not in columns:
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {definition}")
    today = datetime.now(UTC).isoformat(timespec="seconds")
    connection.exec_driver_sql("UPDATE forgotten SET at = ?", (today,))
    metadata.set_value(connection, "format", str(schema.FORMAT))
    for checked in schema.CHECKED:
        connection.exec_driver_sql(f"UPDATE {checked.name} SET {COLUMN} = {checksum_sql(checked)}")
    originals.note_files(connection, folder)
    start_totals(connection)
    create_guard(connection)


def _added_columns() -> list[tuple[str, str]]:
    """Return the columns that tables of format 1 may lack, with their tables."""
    checksums = [(table.name, f"{COLUMN} INTEGER") for table in schema.CHECKED]
    return [("images", "sop_class TEXT DEFAULT '' NOT NULL"), ("forgotten", "at TEXT"), *checksums]
