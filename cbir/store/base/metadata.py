"""Single values about a collection, stored in the table `meta`."""

from pathlib import Path

from sqlalchemy import Connection, delete, select

from cbir.errors import CollectionDamaged
from cbir.store.base import normalisation
from cbir.store.base.damage import REPAIR
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import Profile
from cbir.store.base.schema import meta
from cbir.store.base.statements import Statement, insert_or_update, is_postgresql, row_checksum
from cbir.store.base.stored_models import with_model

AUTO = "auto"  # re-ranker that `auto` stands for, derived from the snapshot

INCOMPLETE_CHANGES = "incomplete_changes"  # number of the history up to which entries may be missing

UNCHECKED = "generation"  # only tells that something has changed

SELECT = Statement("SELECT value, checksum FROM meta WHERE key = ?")

NEXT = "CAST(value AS INTEGER) + 1"

BUMP = f"""
    UPDATE meta SET value = {NEXT}, checksum = row_checksum(CAST(key AS BLOB), CAST({NEXT} AS BLOB))
    WHERE key = '{UNCHECKED}'"""

BUMP_POSTGRESQL = f"UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS TEXT) WHERE key = '{UNCHECKED}'"


def find_value(connection: Connection, key: str) -> str | None:
    """Return a value; None if there is none. Raises CollectionDamaged if it does not match its checksum."""
    row = SELECT.run(connection, key).first()
    if row is None:
        return None
    if key != UNCHECKED and row.checksum != row_checksum(key.encode(), str(row.value).encode()):
        raise CollectionDamaged(f"{key} in the collection's database does not match its checksum; {REPAIR}")
    return str(row.value)


def required_value(connection: Connection, key: str) -> str:
    """Return a value that every collection has; raises CollectionDamaged without it."""
    value = find_value(connection, key)
    if value is None:
        raise CollectionDamaged(f"the collection's database does not contain its {key}; {REPAIR}")
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
    values = {"key": key, "value": value, "checksum": row_checksum(key.encode(), value.encode())}
    insert_or_update(connection, meta, "key", values)


def bump_generation(connection: Connection) -> None:
    """Increment the generation, which signals a change to readers."""
    bump = BUMP_POSTGRESQL if is_postgresql(connection) else BUMP
    if connection.exec_driver_sql(bump).rowcount == 0:
        required_value(connection, "generation")  # raises


def read_profile(connection: Connection, folder: Path) -> Profile:
    """Return the profile of the collection in `folder`, with its model."""
    return with_model(Profile.model_validate_json(required_value(connection, "profile")), folder)


def read_statistics(connection: Connection) -> Statistics | None:
    """Return the statistics that normalise vectors; None until an indexing run has ended."""
    text = find_value(connection, "statistics")
    return normalisation.read_statistics(text) if text else None


PREFIX = "grading:"


def set_grade_model(connection: Connection, label: str, text: str) -> None:
    """Store the model of a label and replace an earlier one.

    Parameters
    ----------
    connection : Connection
    label : str
        Label that holds the grades.
    text : str
        Serialised model.
    """
    set_value(connection, PREFIX + label, text)


def read_grade_model(connection: Connection, label: str) -> str | None:
    """Return the model of a label; None if there is none."""
    return find_value(connection, PREFIX + label)


def graded_labels(connection: Connection) -> list[str]:
    """Return the labels that have a model, in alphabetical order."""
    keys = connection.scalars(select(meta.c.key).where(meta.c.key.startswith(PREFIX, autoescape=True)))
    return sorted(key.removeprefix(PREFIX) for key in keys)


def delete_grade_models(connection: Connection) -> None:
    """Delete all models: they were fitted to images that may be erased."""
    connection.execute(delete(meta).where(meta.c.key.startswith(PREFIX, autoescape=True)))
