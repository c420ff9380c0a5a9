"""One writer at a time, whoever it is; a lock that the kernel lets go of when its process dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cbir.errors import CollectionBusy


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the collection's writer lock; raises CollectionBusy at once where somebody else does."""
    with (folder / "writer.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(32).strip() or "unknown"
            raise CollectionBusy(
                f"another process (number {holder}) is writing to {folder}; wait for it to end, then try again"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
