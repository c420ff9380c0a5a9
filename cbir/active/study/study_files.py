"""Files of a study: written whole or not at all."""

from pathlib import Path

from cbir.atomic import write_bytes
from cbir.store.disk_full import raise_when_full


def write_study_file(path: Path, content: bytes) -> None:
    """Put a file in its place, on the disk when this returns; raises StorageFull."""
    with raise_when_full(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(path, content, permissions=0o600)
