"""File of a collection's latest audit: ids of images and figures, for the page; made again by the next audit."""

from pathlib import Path

from cbir.atomic import atomic_text
from cbir.store.permissions import file_mode

NAME = "audit.json"


def write_audit_file(folder: Path, text: str) -> None:
    """Write the audit, JSON, of the collection in `folder` atomically."""
    with atomic_text(folder / NAME, permissions=file_mode(folder)) as file:
        file.write(text)


def read_audit_file(folder: Path) -> str | None:
    """Read the audit of the collection in `folder`; None if there is none."""
    try:
        return (folder / NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def drop_audit_file(folder: Path) -> None:
    """Delete the audit of the collection in `folder`, if it has one."""
    (folder / NAME).unlink(missing_ok=True)
