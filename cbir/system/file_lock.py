"""Exclusive locks on open files, which the operating system releases when their process dies."""

import os
import sys

if sys.platform == "win32":
    import msvcrt

    BEYOND = 2**31 - 2  # Windows locks bytes, and no one may read locked ones: take one behind any content

    def _lock(file: int, mode: int) -> None:
        position = os.lseek(file, 0, os.SEEK_CUR)
        os.lseek(file, BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(file, mode, 1)
        finally:
            os.lseek(file, position, os.SEEK_SET)

    def try_lock(file: int) -> bool:
        """Lock an open file descriptor for this process; False if another one holds the lock."""
        try:
            _lock(file, msvcrt.LK_NBLCK)
        except OSError:
            return False
        return True

    def wait_lock(file: int) -> None:
        """Lock an open file descriptor, waiting until no other process holds the lock."""
        while True:
            try:
                return _lock(file, msvcrt.LK_LOCK)  # gives up after ten seconds
            except OSError:
                continue

else:
    import fcntl

    def try_lock(file: int) -> bool:
        """Lock an open file descriptor for this process; False if another one holds the lock."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_lock(file: int) -> None:
        """Lock an open file descriptor, waiting until no other process holds the lock."""
        fcntl.flock(file, fcntl.LOCK_EX)
