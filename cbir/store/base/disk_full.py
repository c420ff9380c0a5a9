"""Translate disk-full errors (ENOSPC, EDQUOT, SQLITE_FULL) into StorageFull."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from cbir.errors import StorageFull

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# SQLite says FULL for ENOSPC alone; a quota or a limit of file sizes is a failed write to it.
SQLITE_FULL = {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_FSYNC"}


@contextmanager
def raise_when_full(folder: Path) -> Iterator[None]:
    """Raise StorageFull if the block fails because the disk of `folder` is full."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, OSError) as error:
        if not is_full(error):
            raise
        raise StorageFull(
            f"the disk of {folder} is full; no data is damaged or lost: free some space and repeat the step"
        ) from error


def is_full(error: BaseException) -> bool:
    """Return whether an error says that a disk is full."""
    if isinstance(error, OSError):
        return error.errno in FULL
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlite_errorname", None) in SQLITE_FULL
