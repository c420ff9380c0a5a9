"""Free space of the disks that a process writes to."""

import os
import shutil
from pathlib import Path


def free_bytes(folder: Path) -> int | None:
    """Return the bytes free on the disk of a folder, which need not exist yet; None if the disk does not say."""
    for path in (folder, *folder.parents):
        try:
            return shutil.disk_usage(path).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None


def has_room(folder: Path) -> bool:
    """Return False if the disk of a folder has no block left for this process, those reserved for root included."""
    if not hasattr(os, "statvfs"):
        return free_bytes(folder) != 0
    status = os.statvfs(folder)
    return (status.f_bfree if os.geteuid() == 0 else status.f_bavail) > 0
