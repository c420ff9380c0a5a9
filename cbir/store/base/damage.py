"""Errors that a damaged file or a full disk causes, each as one error that names what restores the collection."""

import errno
import os
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from cbir.errors import CbirError, CollectionDamaged, InvalidInput, StorageFull
from cbir.store.base.collection_folder import is_read_only
from cbir.store.base.schema import COPIES, DATABASE

REPAIR = "`cbir collection verify --repair` restores what a sound copy holds"


def restore_advice(folder: Path) -> str:
    """Return the command that restores the collection in `folder`: from its last good copy, or from a backup."""
    if folder.name in COPIES:
        return "restore a backup"
    if folder.name in ("", ".."):  # the working folder, or one above it
        folder = Path(os.path.abspath(folder))
    aside = _free_name(folder)
    move = f"mv {shlex.quote(str(folder))} {shlex.quote(str(aside))}"
    copy = find_copy(folder)
    if copy is None:
        return f"restore a backup: `{move} && cbir collection restore BACKUP {shlex.quote(str(folder))}`"
    source = shlex.quote(str(aside / copy.name))
    return (
        f"restore a newer backup, or the last good copy, of {time_of_copy(copy)}: "
        f"`{move} && cbir collection restore {source} {shlex.quote(str(folder))}`"
    )


def find_copy(folder: Path) -> Path | None:
    """Return the last good copy of the collection in `folder`, also after a replacement that was interrupted."""
    paths = (folder / name for name in COPIES)
    return next((path for path in paths if _has_content(path / DATABASE)), None)


def time_of_copy(copy: Path) -> str:
    """Return when a last good copy was made, by its snapshot, which never changes."""
    paths = [path for path in (copy / "snapshots").glob("*") if path.is_file()] or [copy]
    newest = max(path.stat().st_mtime for path in paths)
    return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(newest))} UTC"


def _free_name(folder: Path) -> Path:
    """Return a name beside `folder` that nothing has: `mv` would move into a folder of that name."""
    names = (f"{folder.name}-damaged{number if number > 1 else ''}" for number in count(1))
    return next(path for path in map(folder.with_name, names) if not os.path.lexists(path))


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


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
