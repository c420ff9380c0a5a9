"""One writer at a time, whoever it is; a lock that the kernel lets go of when its process dies."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cbir.errors import CollectionBusy
from cbir.file_lock import try_lock

LENGTH = 32  # bytes of the file: the number of the process that holds it, and spaces


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the collection's writer lock; raises CollectionBusy at once where somebody else does."""
    with open(folder / "writer.lock", "rb", buffering=0, opener=_to_read_and_write) as file:
        held = os.pread(file.fileno(), LENGTH, 0)
        if not try_lock(file.fileno()):
            holder = held.decode(errors="replace").strip() or "unknown"
            raise CollectionBusy(
                f"another process (number {holder}) is writing to {folder}; wait for it to end, then try again"
            )
        own = str(os.getpid()).encode().ljust(LENGTH)
        if held != own:  # a file that is written anew, or cut, makes the next commit wait for the disk
            os.pwrite(file.fileno(), own, 0)
        yield


def _to_read_and_write(path: str, _flags: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
