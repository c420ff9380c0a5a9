"""Atomic, durable file writes: a reader sees the old file or the complete new one, never a part.

Every write follows the same steps: temporary file beside the target, fsync, rename over the target, fsync of the
folder. An error removes the temporary file; a kill may leave it, and the next write of the same path replaces it.

Only its owner can read a new file or folder, unless the caller says otherwise: most are about patients.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, TextIO, cast

SUFFIX = ".partial"
OWNER_FILE = 0o600
OWNER_FOLDER = 0o700
PUBLIC_FILE = (
    0o666  # less the umask; for what is about no patient: tests/project/test_private_outputs.py lists it
)
BINARY: int = getattr(os, "O_BINARY", 0)  # for os.open: Windows else ends lines in its own way


@contextmanager
def atomic_binary(
    path: Path, *, permissions: int = OWNER_FILE, suffix: str = SUFFIX, durable: bool = True
) -> Iterator[BinaryIO]:
    """Open a binary file that appears under its name when the block ends without an error.

    Parameters
    ----------
    path : Path
        Target; its folder must exist.
    permissions : int
        File mode, less the process's umask; the owner's alone by default.
    suffix : str
        Appended to the target's name for the temporary file. Processes that may write the same path at the same
        time need different ones.
    durable : bool
        Sync file and folder. False only for many small files that can be made again, such as extracted images.

    Yields
    ------
    BinaryIO
        The temporary file, empty and seekable.
    """
    partial = path.with_name(path.name + suffix)
    partial.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY
    try:
        with open(os.open(partial, flags, permissions), "w+b") as file:
            yield cast(BinaryIO, file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)  # it takes up space, which may be what is missing
        raise
    if durable:
        sync_folder(path.parent)


@contextmanager
def atomic_text(
    path: Path, *, permissions: int = OWNER_FILE, suffix: str = SUFFIX, errors: str = "strict"
) -> Iterator[TextIO]:
    """Open a UTF-8 text file that appears under its name when the block ends without an error.

    Lines end as they are written, on every system.

    Parameters
    ----------
    path : Path
        Target; its folder must exist.
    permissions : int
        See `atomic_binary`.
    suffix : str
        Appended to the target's name for the temporary file, see `atomic_binary`.
    errors : str
        Of `open`, for characters that UTF-8 has not; file names may have such.
    """
    with atomic_binary(path, permissions=permissions, suffix=suffix) as binary:
        file = TextIOWrapper(binary, encoding="utf-8", errors=errors, newline="\n")
        try:
            yield file
        finally:
            file.detach()  # writes what is buffered; the binary file stays open


def write_bytes(
    path: Path, content: bytes, *, permissions: int = OWNER_FILE, suffix: str = SUFFIX, durable: bool = True
) -> None:
    """Replace a file by `content`.

    Parameters
    ----------
    path : Path
        Target; its folder must exist.
    content : bytes
        New content.
    permissions, suffix, durable
        See `atomic_binary`.
    """
    with atomic_binary(path, permissions=permissions, suffix=suffix, durable=durable) as file:
        file.write(content)


def open_private(path: str, flags: int) -> int:
    """Opener for `open`: a file that is new, or written over, can be read by its owner alone."""
    file = os.open(path, flags, OWNER_FILE)
    if flags & os.O_TRUNC and hasattr(os, "fchmod") and S_ISREG(os.fstat(file).st_mode):
        with suppress(PermissionError):  # it is someone else's, who decides
            os.fchmod(file, OWNER_FILE)
    return file


def private_folder(folder: Path) -> None:
    """Create a folder, and its missing parents, that only their owner can read; one that exists stays as it is."""
    for each in (*reversed(folder.parents), folder):  # the mode of mkdir is not that of parents
        if not each.is_dir():
            if each.exists() and each != folder:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
            each.mkdir(mode=OWNER_FOLDER, exist_ok=True)


def copy_file(source: Path, target: Path) -> None:
    """Copy the content of `source` to `target`."""
    with source.open("rb") as content, atomic_binary(target) as file:
        shutil.copyfileobj(content, file)


def rename_durably(partial: Path, folder: Path) -> None:
    """Rename a finished folder `partial` to `folder`, so that a power cut leaves all of it or nothing."""
    if hasattr(os, "sync"):  # all file systems, since the folder may hold any number of files
        os.sync()
    partial.rename(folder)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
