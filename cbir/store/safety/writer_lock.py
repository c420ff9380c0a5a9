"""Writer lock of a collection: one writer at a time; the operating system releases it when its process dies."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cbir.errors import CollectionBusy
from cbir.store.base.permissions import file_mode
from cbir.system.files import try_lock, wait_lock

LENGTH = 32  # bytes of the file: the number of the process that holds it, and spaces


@contextmanager
def wait_for_writer(folder: Path) -> Iterator[None]:
    """Hold the collection's writer lock, once no other process does."""
    with open(folder / "writer.lock", "r+b", buffering=0, opener=_open_or_create) as file:
        wait_lock(file.fileno())
        yield


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the collection's writer lock; raises CollectionBusy at once if another process does."""
    with open(folder / "writer.lock", "r+b", buffering=0, opener=_open_or_create) as file:
        holder = file.read(LENGTH)
        if not try_lock(file.fileno()):
            number = holder.decode(errors="replace").strip() or "unknown"
            raise CollectionBusy(
                f"another process (number {number}) is writing to {folder}; wait for it to end, then try again"
            )
        process = str(os.getpid()).encode().ljust(LENGTH)
        if holder != process:  # writing a new file, or truncating it, makes the next commit wait for the disk
            file.seek(0)
            file.write(process)
        yield


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, file_mode(Path(path).parent))
