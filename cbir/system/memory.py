"""Memory of this process: how much it has, and its return to the system."""

import ctypes
import gc
import os
from pathlib import Path

STATM = Path("/proc/self/statm")


def private_memory() -> int:
    """Return the private memory of this process that `memory_limit` counts, in bytes; 0 without /proc."""
    return (
        int(STATM.read_text(encoding="utf-8").split()[5]) * os.sysconf("SC_PAGE_SIZE")
        if STATM.exists()
        else 0
    )


def resident_memory() -> int | None:
    """Return the memory of the machine that this process takes, in bytes; None without /proc."""
    if not STATM.exists():
        return None
    return int(STATM.read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def release_memory() -> None:
    """Return memory that is not used any more to the system, which the C library else keeps for later."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None  # glibc only
    if trim is not None:
        trim(0)
