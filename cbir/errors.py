"""Exceptions that cbir raises on purpose, and what a log says of others."""

import getpass
import os
import shlex
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class CbirError(Exception):
    """Base of all expected errors; its message names the input and the remedy."""


class UnreadableImage(CbirError):
    """Data that are not a supported image, are damaged, or exceed the limits."""


class InvalidInput(CbirError):
    """An option, label filter, vector or profile that does not fit."""


class NotEnoughMemory(UnreadableImage):
    """An image that needs more memory than decoding may take."""


class UndescribableImage(UnreadableImage):
    """An image that a network gives values for that cannot be stored."""


class NoPixels(UnreadableImage):
    """A DICOM object without an image: a report, a presentation state, a plan."""


class NotFound(CbirError):
    """A missing image, collection or file."""


class QueryCancelled(CbirError):
    """A search took longer than the setting `query_seconds` allows."""


class CollectionBusy(CbirError):
    """Another process is writing to the collection."""


class CollectionDamaged(CbirError):
    """Files of a collection contradict each other or cannot be read."""


class AccessDenied(CbirError):
    """A file or folder that the user of this process has no right to; nothing is known of its content."""


class DatabaseUnavailable(CbirError):
    """The database server of a collection does not answer, or refuses."""


class IndexUnavailable(CbirError):
    """The server of a vector index does not answer, or refuses."""


class DeviceFailed(CbirError):
    """A GPU failed, or a library that computes on it."""


class ClusterFailed(CbirError):
    """A Ray cluster does not answer, or its nodes cannot describe images."""


class StorageFull(CbirError):
    """No space is left on the disk of a collection."""


class ArchiveFailed(CbirError):
    """A DICOMweb archive does not answer, or answers with an error.

    answered: True if the archive answered, though not with the requested data.
    """

    def __init__(self, text: str, answered: bool = False) -> None:
        super().__init__(text)
        self.answered = answered


class XnatFailed(Exception):
    """An XNAT server refuses, or does not deliver what it should. The message repeats nothing that it answered."""


class XnatSilent(XnatFailed):
    """An XNAT server does not answer, however often it is asked. is_overloaded: it says so itself."""

    def __init__(self, text: str, is_overloaded: bool = False) -> None:
        super().__init__(text)
        self.is_overloaded = is_overloaded


def describe_unexpected(error: BaseException) -> str:
    """Return kind and line of an error that was raised, without its text, which may quote names or values."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {frame.filename}:{frame.lineno}"


def may_read(path: Path) -> bool:
    """Return whether this process may read a file, or list a folder and enter it."""
    return _may(path, os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK)


def find_denied(path: Path, writing: bool = False) -> AccessDenied | None:
    """Return the error of a path that this process has no right to; None if it has, or if nothing is there.

    The message names the first folder on the way that is closed, or the path itself. `writing`: it is to be changed
    too, or created.
    """
    real = Path(os.path.realpath(path))
    for folder in reversed(real.parents):
        if not _may(folder, os.X_OK):
            return _denied(folder, "enter") if os.path.lexists(folder) else None
    exists = os.path.lexists(real)
    if exists and not may_read(real):
        return _denied(real, "read")
    if writing and exists and not _may(real, os.W_OK):
        return _denied(real, "write")
    if writing and real.parent.is_dir() and not _may(real.parent, os.W_OK):
        return _denied(real.parent, "write to")
    return None


@contextmanager
def raise_when_denied(path: Path, writing: bool = False) -> Iterator[None]:
    """Raise AccessDenied in place of a PermissionError, which is one of `path` if it names no file."""
    try:
        yield
    except PermissionError as error:
        raise access_denied(error, path, writing) from error


def access_denied(error: PermissionError, path: Path, writing: bool = False) -> AccessDenied:
    """Return the error to raise in place of another one, which is one of `path` if it names no file.

    `writing`: see `find_denied`.
    """
    named = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else path
    return find_denied(named, writing) or AccessDenied(
        f"the system denies the user {_user()} {named} ({error.strerror or error}); give that user the right"
    )


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _denied(path: Path, what: str) -> AccessDenied:
    user, owner = _user(), _owner(path)
    quoted, right = shlex.quote(str(path)), "rwx" if path.is_dir() else "rw"
    if owner is None:
        remedy = f"give {user} the right"
    elif owner == user:
        remedy = f"`chmod u+{right} {quoted}` gives the right"
    else:
        remedy = f"run this as {owner}, give {user} the right, or name another place"
    return AccessDenied(f"the user {user} may not {what} {path}; {remedy}")


def _user() -> str:
    return _name(os.geteuid()) if hasattr(os, "geteuid") else getpass.getuser()


def _owner(path: Path) -> str | None:
    return _name(path.lstat().st_uid) if hasattr(os, "geteuid") else None


def _name(number: int) -> str:
    from pwd import getpwuid  # not on Windows

    try:
        return getpwuid(number).pw_name
    except KeyError:  # as in containers
        return str(number)
