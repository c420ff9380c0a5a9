"""Lock of a collection on a GPU: one process at a time has its vectors there."""

import errno
import os
from pathlib import Path
from threading import Lock

from cbir.system.file_lock import try_lock

_acquiring = Lock()
# By process, file system and number of the lock's file.
_device_locks: dict[tuple[int, int, int], int] = {}


def acquire_device_lock(folder: Path) -> bool:
    """Acquire the device lock of the collection in `folder`; return False if another process has it.

    The kernel releases the lock when the process dies.
    """
    with _acquiring:
        file = _open_lock(folder)
        status = os.fstat(file)
        name = os.getpid(), status.st_dev, status.st_ino
        if name in _device_locks:
            os.close(file)
            return True
        if not try_lock(file):
            os.close(file)
            return False
        _device_locks[name] = file
        return True


def _open_lock(folder: Path) -> int:
    """Open the lock's file; the folder itself, in place of it, where nothing can be written."""
    try:
        return os.open(folder / "device.lock", os.O_WRONLY | os.O_CREAT, 0o666)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        return os.open(folder, os.O_RDONLY)
