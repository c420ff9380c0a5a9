"""Files of the state folder, which no other user may change, nor read."""

import os
from pathlib import Path


def permission_problem(file: Path, mode: int) -> str | None:
    """Return why other users could read `file` of this mode, or put their own in its place; None if they cannot."""
    if os.name == "nt":  # permissions are not in the mode there
        return None
    if mode & 0o007:
        return f"{file} is accessible to every user of the machine; chmod 600 it"
    if mode & 0o020:
        return f"{file} is writable for its group; chmod 600 it"
    if file.parent.stat().st_mode & 0o002:
        return f"the folder {file.parent} is writable for every user of the machine; chmod 700 it"
    return None


def give_to_owner(file: int, folder: Path) -> None:
    """Give an open file to the owner of its folder: the service must be able to use what `sudo cbir` has made."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(file, owner.st_uid, owner.st_gid)
