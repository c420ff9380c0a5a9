"""Making files and folders, and whom they belong to.

Root gives what it makes in a folder of another user to that user: a service can use what `sudo cbir` has made. What
the folder's owner may have put there, such as a link, is never followed, nor given away.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from cbir.errors import AccessDenied

OWNER_FILE = 0o600

OWNER_FOLDER = 0o700

BINARY: int = getattr(os, "O_BINARY", 0)  # for os.open: Windows else ends lines in its own way


class OtherFolder(NamedTuple):
    """Open folder of another user than root; by its descriptor it stays the same if another takes its place."""

    opened: int
    user: int
    group: int


def create_file(path: Path, flags: int, mode: int = OWNER_FILE) -> int:
    """Open a new file, which root gives to the owner of its folder; raises FileExistsError.

    Parameters
    ----------
    path : Path
        File; its folder must exist.
    flags : int
        Of `os.open`, without O_CREAT and O_EXCL.
    mode : int
        File mode, less the process's umask.

    Returns
    -------
    int
        Descriptor of the file.
    """
    flags |= os.O_CREAT | os.O_EXCL | BINARY  # which follow no link
    with _folder_of_other(path.parent) as folder:
        if folder is None:
            return os.open(path, flags, mode)
        file = os.open(path.name, flags, mode, dir_fd=folder.opened)
        _give(file, folder)
        return file


def open_or_create(path: Path, flags: int, mode: int = OWNER_FILE) -> int:
    """Open the file `path`, a new one as `create_file` does with these `flags` and this `mode`.

    Root follows no link in a folder of another user.
    """
    try:
        return open_existing(path, flags)
    except FileNotFoundError:
        with suppress(FileExistsError):  # another process was faster
            return create_file(path, flags, mode)
        return open_existing(path, flags)


def open_existing(path: Path, flags: int) -> int:
    """Open a file that exists; root follows no link in a folder of another user."""
    with _folder_of_other(path.parent) as folder:
        if folder is None:
            return os.open(path, flags | BINARY)
        return os.open(path.name, flags | os.O_NOFOLLOW, dir_fd=folder.opened)


def make_folder(
    folder: Path, mode: int = OWNER_FOLDER, *, parents: bool = False, exist_ok: bool = False
) -> None:
    """Create a folder; root gives it to the owner of the folder that it is in.

    `mode`, `parents` and `exist_ok` are those of `Path.mkdir`.
    """
    if parents and not folder.parent.is_dir():
        make_folder(folder.parent, 0o777, parents=True, exist_ok=True)
    with _folder_of_other(folder.parent) as parent:
        if parent is None:
            folder.mkdir(mode, exist_ok=exist_ok)
            return
        try:
            os.mkdir(folder.name, mode, dir_fd=parent.opened)
        except FileExistsError:
            if not exist_ok or not folder.is_dir():
                raise
        else:
            _give_inside(parent.opened, folder.name, parent, Counter())


def give_folder(folder: Path) -> None:
    """Give a folder that root has filled, and that no other user can enter, to the owner of the folder it is in."""
    with _folder_of_other(folder.parent) as parent:
        if parent is not None:
            files = [os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names]
            links = Counter(os.lstat(file).st_ino for file in files)
            _give_inside(parent.opened, folder.name, parent, links)


def set_mode(path: Path, mode: int) -> None:
    """Set the mode of a file or folder, not of one that a link leads to."""
    if not (hasattr(os, "fchmod") and hasattr(os, "O_NOFOLLOW")):
        path.chmod(mode)
        return
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fchmod(opened, mode)
    finally:
        os.close(opened)


@contextmanager
def _folder_of_other(path: Path) -> Iterator[OtherFolder | None]:
    """Yield the folder in `path` if this process is root's and the folder is not; else None.

    Raises AccessDenied for a link that somebody has made to what is not theirs.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        yield None
        return
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        status = os.fstat(opened)
        for link in (path, *path.parents):
            if link.is_symlink() and link.lstat().st_uid not in (0, status.st_uid):
                raise AccessDenied(
                    f"{link} is a link of another user than root and the owner of what it leads to, which root does "
                    "not follow; put a folder in its place"
                )
        yield OtherFolder(opened, status.st_uid, status.st_gid) if status.st_uid else None
    finally:
        os.close(opened)


def _give_inside(folder: int, name: str, owner: OtherFolder, links: Counter[int]) -> None:
    """Give what root has made in an open folder: first what is inside of it, since its owner can then enter.

    A file with more links than those counted in `links`, by its number, was there before.
    """
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:  # a link, for example
        return
    try:
        status = os.fstat(opened)
        if status.st_uid:  # not root's
            return
        if S_ISDIR(status.st_mode):
            for inner in os.listdir(opened):
                _give_inside(opened, inner, owner, links)
        elif not S_ISREG(status.st_mode) or status.st_nlink > max(links[status.st_ino], 1):
            return
        _give(opened, owner)
    finally:
        os.close(opened)


def _give(file: int, owner: OtherFolder) -> None:
    with suppress(OSError):  # not every file system, or name space, lets root do so
        os.fchown(file, owner.user, owner.group)
