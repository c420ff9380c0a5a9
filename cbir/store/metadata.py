"""Single values about a collection, stored in the table `meta`."""

from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import insert

from cbir.errors import CollectionDamaged
from cbir.store import normalisation
from cbir.store.checksums import row_checksum
from cbir.store.descriptor_model import with_model
from cbir.store.normalisation import Statistics
from cbir.store.profile import Profile
from cbir.store.schema import meta
from cbir.store.snapshot import SnapshotInfo

AUTO = "auto"  # re-ranker that `auto` stands for, derived from the snapshot
CANDIDATES = "candidates"  # there if each snapshot is to have a candidate index
INCOMPLETE_CHANGES = "incomplete_changes"  # number of the history up to which entries may be missing
UNCHECKED = "generation"  # only tells that something has changed
SELECT = "SELECT value, checksum FROM meta WHERE key = ?"
NEXT = "CAST(value AS INTEGER) + 1"
BUMP = f"""
    UPDATE meta SET value = {NEXT}, checksum = row_checksum(CAST(key AS BLOB), CAST({NEXT} AS BLOB))
    WHERE key = '{UNCHECKED}'"""


def find_value(connection: Connection, key: str) -> str | None:
    """Return a value; None if there is none. Raises CollectionDamaged if it does not match its checksum."""
    row = connection.exec_driver_sql(SELECT, (key,)).first()
    if row is None:
        return None
    if key != UNCHECKED and row.checksum != row_checksum(key.encode(), str(row.value).encode()):
        raise CollectionDamaged(f"{key} in the collection's database does not match its checksum")
    return str(row.value)


def required_value(connection: Connection, key: str) -> str:
    """Return a value that every collection has; raises CollectionDamaged without it."""
    value = find_value(connection, key)
    if value is None:
        raise CollectionDamaged(f"the collection's database does not contain its {key}")
    return value


def set_value(connection: Connection, key: str, value: str) -> None:
    """Set a value.

    Parameters
    ----------
    connection : Connection
    key : str
        Key in the table `meta`.
    value : str
        New value.
    """
    values = {"value": value, "checksum": row_checksum(key.encode(), value.encode())}
    statement = insert(meta).values(key=key, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=values))


def bump_generation(connection: Connection) -> None:
    """Increment the generation, which signals a change to readers."""
    if connection.exec_driver_sql(BUMP).rowcount == 0:
        required_value(connection, "generation")  # raises


def read_profile(connection: Connection, folder: Path) -> Profile:
    """Return the profile of the collection in `folder`, with its model."""
    return with_model(Profile.model_validate_json(required_value(connection, "profile")), folder)


def read_statistics(connection: Connection) -> Statistics | None:
    """Return the statistics that normalise vectors; None until an indexing run has ended."""
    text = find_value(connection, "statistics")
    return normalisation.read_statistics(text) if text else None


def read_snapshot_info(connection: Connection) -> SnapshotInfo | None:
    """Return the description of the snapshot; None if there is none."""
    text = find_value(connection, "snapshot")
    return SnapshotInfo.model_validate_json(text) if text else None
