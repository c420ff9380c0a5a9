"""Triggers that keep an older program from writing to a collection that was upgraded while it had it open.

Such a program would store rows without a checksum, which would then count as damaged.
"""

from sqlalchemy import Connection

from cbir.store.base.checksums import COLUMN
from cbir.store.base.schema import forgotten, images, labels, meta, thumbnails, vectors

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
