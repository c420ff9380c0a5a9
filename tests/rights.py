"""Rights of files and folders that commands leave, and calls that these rights hold for."""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

Result = TypeVar("Result")

PASSES_OVER_RIGHTS = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of linux/capability.h
VERSION = 0x20080522  # of the two structures


def open_to_others(folder: Path) -> list[str]:
    """The folder, and the files and folders in it, that others than the owner have a right to."""
    paths = [] if os.name == "nt" else [folder, *folder.rglob("*")]
    return [str(path) for path in paths if mode_of(path) & 0o077]


def mode_of(path: Path) -> int:
    """The mode of a file or folder; 0 if it is gone, as SQLite's log when the last connection is closed."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def obeying_rights(call: Callable[[], Result]) -> Result:
    """The result of a call for which the rights of files hold, also if root runs the tests.

    Linux has capabilities of threads: that of this call passes over no rights, while its files are root's own.
    """
    if os.name == "nt" or (os.geteuid() == 0 and sys.platform != "linux"):
        pytest.skip("rights of files do not hold for this user")
    if os.geteuid() != 0:
        return call()
    with ThreadPoolExecutor(1, initializer=_give_up_privilege) as thread:
        return thread.submit(call).result()


def _give_up_privilege() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    sets[0] &= ~PASSES_OVER_RIGHTS
    sets[1] &= ~PASSES_OVER_RIGHTS
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


@contextmanager
def without_rights(path: Path, mode: int = 0) -> Iterator[None]:
    """Take rights of a file or folder from everyone, its owner included."""
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)
