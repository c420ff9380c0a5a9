"""Errors that a damaged database or file causes, as one error."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from cbir.errors import CbirError, CollectionDamaged, InvalidInput

# Damaged text does not decode, damaged JSON does not parse, and rows of a damaged schema lack columns.
DAMAGE = (SQLAlchemyError, sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, OverflowError)


def is_damage(error: Exception) -> bool:
    """Return whether a damaged database may have caused an error; errors of cbir itself never count."""
    return isinstance(error, DAMAGE) and not isinstance(error, CbirError)


@contextmanager
def raise_when_damaged(folder: Path) -> Iterator[None]:
    """Raise CollectionDamaged, or InvalidInput for a read-only folder, if the block cannot read the database."""
    try:
        yield
    except (*DAMAGE, OSError) as error:
        if not os.access(folder, os.W_OK):
            raise InvalidInput(
                f"{folder} is not writable, which reading needs too (SQLite's write-ahead log); copy it to a "
                "folder that is"
            ) from error
        if isinstance(error, OSError):
            raise
        raise CollectionDamaged(f"the database of {folder} cannot be read: {type(error).__name__}") from error
