"""Files of a study: written whole or not at all."""

import os
from pathlib import Path

from cbir.store.room import told_when_full
from cbir.store.snapshot import sync_folder


def write(path: Path, content: bytes) -> None:
    """Put a file in its place, on the disk when this returns; raises StorageFull."""
    partial = path.with_name(f"{path.name}.partial")
    with told_when_full(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
