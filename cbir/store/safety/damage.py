"""Errors that a damaged database or file causes, as one error."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from cbir.errors import CbirError, CollectionDamaged, InvalidInput
from cbir.store.base.read_only_file import is_read_only
from cbir.store.base.restore_advice import restore_advice
from cbir.store.base.schema import DATABASE

# Damaged text does not decode, damaged JSON does not parse, and rows of a damaged schema lack columns.
DAMAGE = (SQLAlchemyError, sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, OverflowError)


def is_damage(error: Exception) -> bool:
    """Return whether a damaged database may have caused an error; errors of cbir itself never count."""
    return isinstance(error, DAMAGE) and not isinstance(error, CbirError)


def describe_damage_of(folder: Path, error: Exception) -> str:
    """Describe what SQLite says of the database in `folder`, and what restores it."""
    reason = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    if not isinstance(error, SQLAlchemyError | sqlite3.Error) or not reason.isprintable():
        reason = "its content is not what was written"  # other texts may quote it
    return f"the database {DATABASE} of {folder} is damaged ({reason}); {restore_advice(folder)}"


@contextmanager
def raise_when_damaged(folder: Path) -> Iterator[None]:
    """Raise CollectionDamaged, or InvalidInput for a read-only folder, if the block cannot read the database."""
    try:
        yield
    except (*DAMAGE, OSError) as error:
        if is_read_only(folder) and "unable to open" in str(error):
            raise InvalidInput(
                f"{folder} is not writable, and has a log ({DATABASE}-wal) that can only be read with write access; "
                "copy it to a folder that is writable"
            ) from error
        if isinstance(error, OSError):
            raise
        raise CollectionDamaged(describe_damage_of(folder, error)) from error
