"""Folder of a collection: access rights, the lock of its one writer, and manifests of files that do not change.

A manifest is `SHA256SUMS`, which `sha256sum --check` reads too.
"""

import hashlib
import logging
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cbir.errors import (
    AccessDenied,
    CollectionBusy,
    CollectionDamaged,
    access_denied,
    find_denied,
    may_read,
    raise_when_denied,
)
from cbir.system.files import OWNER_FILE, OWNER_FOLDER, file_sha256, try_lock, wait_lock, write_bytes
from cbir.system.ownership import create_file, open_or_create, set_mode

DENYING = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR")
FOREIGN = (".", "lost+found")  # how names of file systems begin, which are root's alone
GROUP_FILE = stat.S_IRGRP | stat.S_IWGRP

log = logging.getLogger(__name__)


def file_mode(folder: Path) -> int:
    """Return the mode of new files in `folder`: the group has the rights that the folder gives it, others none."""
    return OWNER_FILE | (folder.stat().st_mode & GROUP_FILE)


def folder_mode(folder: Path) -> int:
    """Return the mode of new folders in `folder`."""
    group = folder.stat().st_mode & stat.S_IRWXG
    return OWNER_FOLDER | group


def create_private_file(path: Path) -> None:
    """Create an empty file, unless it exists, before a library does so with rights for everyone."""
    with suppress(FileExistsError):
        os.close(create_file(path, os.O_WRONLY, file_mode(path.parent)))


def share_with_group(folder: Path) -> None:
    """Let the group into a folder in a collection as far as the collection's folder lets it in.

    What belongs to another member of the group keeps the rights that it was given.
    """
    collection = folder.parent
    modes = {path: file_mode(collection) for path in folder.iterdir()} | {folder: folder_mode(collection)}
    for path, mode in modes.items():
        if not path.is_symlink():  # to another disk, for example
            with suppress(PermissionError, FileNotFoundError):
                set_mode(path, mode)


def restrict_files(folder: Path) -> None:
    """Leave `folder` and everything below it to its owner alone."""
    for path in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):  # SQLite's log goes when the last connection is closed
            path.chmod(OWNER_FOLDER if path.is_dir() else OWNER_FILE)


def warn_if_open_to_others(folder: Path) -> None:
    """Log a warning if users outside the group can enter the collection in `folder`."""
    if os.name == "posix" and folder.stat().st_mode & stat.S_IRWXO:
        log.warning("every user of this machine can read %s; `chmod -R o= %s` prevents it", folder, folder)


def require_readable(folder: Path) -> None:
    """Raise AccessDenied if this process may not read a file in `folder`: what is damaged or missing is not known."""
    folders = [folder]
    while folders:
        for entry in _entries(folders.pop()):
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            elif not may_read(Path(entry.path)) and (denied := find_denied(Path(entry.path))):
                raise denied


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    """Return what is in a folder, but not what file systems keep there."""
    with (
        raise_when_denied(folder),
        suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(folder) as entries,
    ):
        if denied := find_denied(folder):
            raise denied
        return [entry for entry in entries if not entry.name.startswith(FOREIGN)]
    return []


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

    Where nothing can be written and no log is left to read, SQLite opens it as a file that does not change, since it
    could not create its files beside it. Connections then have to be renewed when `stamp_to_read` changes.
    """
    mode = "mode=rw"
    if is_read_only(path.parent):
        mode = "mode=ro" if _stamp(_log(path))[1] else "immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, check_same_thread=False)


def denied_database(file: Path, error: BaseException | None) -> AccessDenied | None:
    """Return the error to raise in place of one of SQLite, if this process may not use the files of a database."""
    name = str(getattr(error, "sqlite_errorname", None) or "")
    if not name.startswith(DENYING):
        return None
    writing = name.startswith("SQLITE_READONLY")
    files = [file, *(file.with_name(f"{file.name}-{end}") for end in ("wal", "shm"))]
    return next(filter(None, (find_denied(path, writing) for path in files)), None)


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


LENGTH = 32  # bytes of the file: the number of the process that holds it, and spaces


@contextmanager
def wait_for_writer(folder: Path) -> Iterator[None]:
    """Hold the collection's writer lock, once no other process does."""
    with open(folder / "writer.lock", "r+b", buffering=0, opener=_open_or_create) as file:
        wait_lock(file.fileno())
        yield


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the collection's writer lock; raises CollectionBusy at once if another process does."""
    with open(folder / "writer.lock", "r+b", buffering=0, opener=_open_or_create) as file:
        holder = file.read(LENGTH)
        if not try_lock(file.fileno()):
            number = holder.decode(errors="replace").strip() or "unknown"
            raise CollectionBusy(
                f"another process (number {number}) is writing to {folder}; wait for it to end, then try again"
            )
        process = str(os.getpid()).encode().ljust(LENGTH)
        if holder != process:  # writing a new file, or truncating it, makes the next commit wait for the disk
            file.seek(0)
            file.write(process)
        yield


def _open_or_create(path: str, flags: int) -> int:
    return open_or_create(Path(path), flags, file_mode(Path(path).parent))


MANIFEST_NAME = "SHA256SUMS"

END = "# of the lines above: "  # `sha256sum` passes over comments


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the manifest of the files `names` in a folder, by their paths inside it, atomically."""
    _store(folder, {name: file_sha256(folder / name) for name in names})


def update_sums(folder: Path, written: Iterable[str] = (), leave_out: Iterable[str] = ()) -> None:
    """Note files that were `written`, and leave others out before they change; nothing without a manifest.

    Raises CollectionDamaged if the manifest itself is damaged.
    """
    hashes = read_sums(folder)
    if hashes is None:
        return
    left_out = set(leave_out)
    changed = {name: text for name, text in hashes.items() if name not in left_out}
    changed |= {name: file_sha256(folder / name) for name in written}
    if changed != hashes:
        _store(folder, changed)


def read_sums(folder: Path) -> dict[str, str] | None:
    """Return the hashes of the files in `folder` by name; None without a manifest. Raises CollectionDamaged."""
    damaged = CollectionDamaged(f"the manifest {MANIFEST_NAME} of {folder} is damaged")
    try:
        content = (folder / MANIFEST_NAME).read_bytes()
        lines = content.decode().splitlines()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise access_denied(error, folder) from error
    except (OSError, UnicodeDecodeError):
        raise damaged from None
    hashes = dict(line.split("  ", 1)[::-1] for line in lines[:-1] if "  " in line)
    if content != _render(hashes):
        raise damaged
    return hashes


def changed_files(folder: Path, only: Iterable[str] | None = None) -> list[str]:
    """Return the files that are missing, or not what the manifest says; none without a manifest.

    Parameters
    ----------
    folder : Path
        Folder with the manifest.
    only : iterable of str, optional
        Names of the files to read; all by default.

    Raises
    ------
    CollectionDamaged
        If the manifest itself is damaged.
    """
    hashes = read_sums(folder) or {}
    names = hashes.keys() if only is None else hashes.keys() & set(only)
    return [name for name in sorted(names) if not _has_hash(folder / name, hashes[name])]


def _has_hash(path: Path, expected: str) -> bool:
    try:
        with raise_when_denied(path):
            return file_sha256(path) == expected
    except OSError:
        return False


def _store(folder: Path, hashes: dict[str, str]) -> None:
    write_bytes(folder / MANIFEST_NAME, _render(hashes), permissions=file_mode(folder))


def _render(hashes: dict[str, str]) -> bytes:
    lines = "".join(f"{text}  {name}\n" for name, text in sorted(hashes.items())).encode()
    return lines + f"{END}{hashlib.sha256(lines).hexdigest()}\n".encode()
