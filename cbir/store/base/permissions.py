"""Access rights of a collection's folder and files: its owner alone, and the group if the folder allows it."""

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from cbir.system.files import OWNER_FILE, OWNER_FOLDER

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
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, file_mode(path.parent)))


def share_with_group(folder: Path) -> None:
    """Let the group into a folder in a collection as far as the collection's folder lets it in.

    What belongs to another member of the group keeps the rights that it was given.
    """
    collection = folder.parent
    with suppress(PermissionError):
        folder.chmod(folder_mode(collection))
    for path in folder.iterdir():
        with suppress(PermissionError):
            path.chmod(file_mode(collection))


def restrict_files(folder: Path) -> None:
    """Leave `folder` and everything below it to its owner alone."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(OWNER_FOLDER if path.is_dir() else OWNER_FILE)


def warn_if_open_to_others(folder: Path) -> None:
    """Log a warning if users outside the group can enter the collection in `folder`."""
    if os.name == "posix" and folder.stat().st_mode & stat.S_IRWXO:
        log.warning("every user of this machine can read %s; `chmod -R o= %s` prevents it", folder, folder)
