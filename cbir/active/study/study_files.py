"""Atomic writes of a study's files."""

from pathlib import Path

from cbir.atomic import write_bytes
from cbir.store.disk_full import raise_when_full


def write_study_file(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically and durably; raise StorageFull on a full disk."""
    with raise_when_full(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(path, content, permissions=0o600)
