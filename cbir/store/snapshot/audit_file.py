"""File of a collection's latest audit: ids of images and figures, for the page; made again by the next audit."""

import hashlib
from pathlib import Path

from cbir.errors import CollectionDamaged
from cbir.store.base.permissions import file_mode
from cbir.system.atomic import atomic_text

AUDIT_FILE = "audit.json"


def write_audit_file(folder: Path, text: str) -> None:
    """Write the audit, JSON in one line, of the collection in `folder` atomically, with its hash in a second line."""
    with atomic_text(folder / AUDIT_FILE, permissions=file_mode(folder)) as file:
        file.write(f"{text}\n{_hash(text)}\n")


def read_audit_file(folder: Path) -> str | None:
    """Read the audit of the collection in `folder`; None if there is none. Raises CollectionDamaged.

    Audits of earlier versions have no hash.
    """
    damaged = CollectionDamaged(f"{AUDIT_FILE} of {folder} is damaged; audit the collection again")
    try:
        content = (folder / AUDIT_FILE).read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise damaged from None
    text, separator, rest = content.partition("\n")
    if separator and rest != f"{_hash(text)}\n":
        raise damaged
    return text


def drop_audit_file(folder: Path) -> None:
    """Delete the audit of the collection in `folder`, if it has one."""
    (folder / AUDIT_FILE).unlink(missing_ok=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
