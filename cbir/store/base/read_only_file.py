"""Open the SQLite file of a collection, also where nothing can be written: a read-only mount, an archive's folder."""

import os
import sqlite3
from pathlib import Path

Stamp = tuple[int, int, int, int]  # of the file and of its log: when it changed, and size


def is_read_only(folder: Path) -> bool:
    """Return whether this process can write nothing in `folder`."""
    return not os.access(folder, os.W_OK)


def stamp_to_read(path: Path) -> Stamp | None:
    """Return what changes with the database at `path` and its log; None where SQLite itself notices changes."""
    if not is_read_only(path.parent):
        return None
    return (*_stamp(path), *_stamp(_log(path)))


def open_file(path: Path) -> sqlite3.Connection:
    """Open a database that exists; never create one.

    Where nothing can be written and no log is left to read, SQLite is told that the file does not change, since it
    could not create its files beside it. Connections then have to be renewed when `stamp_to_read` changes.
    """
    mode = "mode=rw"
    if is_read_only(path.parent):
        mode = "mode=ro" if _stamp(_log(path))[1] else "immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, check_same_thread=False)


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
