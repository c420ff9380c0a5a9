"""Lock of a collection on a GPU: one process at a time has its vectors there."""

import os
from pathlib import Path
from threading import Lock
from typing import IO

from cbir.file_lock import try_lock

_acquiring = Lock()
# By process, file system and number of the lock's file.
_device_locks: dict[tuple[int, int, int], IO[bytes]] = {}


def acquire_device_lock(folder: Path) -> bool:
    """Acquire the device lock of the collection in `folder`; return False if another process has it.

    The kernel releases the lock when the process dies.
    """
    with _acquiring:
        file = (folder / "device.lock").open("ab")
        status = os.fstat(file.fileno())
        name = os.getpid(), status.st_dev, status.st_ino
        if name in _device_locks:
            file.close()
            return True
        if not try_lock(file.fileno()):
            file.close()
            return False
        _device_locks[name] = file
        return True
