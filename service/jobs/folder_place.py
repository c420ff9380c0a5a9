"""Identity of a collection's folder, by which a worker knows whether it has the same folder or a copy."""

import json
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from cbir.system.files import BINARY

NAME = "folder-id.json"


def folder_place(folder: Path, *, create: bool = False) -> str | None:
    """Return the identity of a folder; None if it has none yet, unless it is to be created.

    It is in a file, so that it is the same in all containers and on all machines that mount the folder. A copy of the
    file has another inode: it is not the same folder. Where the file cannot be written, machine and path identify it.
    """
    file = folder / NAME
    place = _read(file)
    if place is not None:
        return place
    if not os.access(folder, os.W_OK):
        return f"{socket.gethostname()}:{folder.resolve()}"
    if create:
        with suppress(OSError):
            _write(file)
        return _read(file) or f"{socket.gethostname()}:{folder.resolve()}"
    return None


def has_many_writers(folder: Path) -> bool:
    """Return whether several processes may write to the collection in a folder at once: one in PostgreSQL."""
    return (folder / "database.json").is_file()


def _read(file: Path) -> str | None:
    try:
        content = json.loads(file.read_bytes())
        return str(content["id"]) if content["inode"] == file.stat().st_ino else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path) -> None:
    """Write the file; of processes that do so at once, the last one's stays."""
    identity = secrets.token_hex(16)
    partial = file.with_name(f"{NAME}.{identity}")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666), "wb") as opened:
            inode = os.fstat(opened.fileno()).st_ino
            opened.write(json.dumps({"id": identity, "inode": inode}).encode())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
