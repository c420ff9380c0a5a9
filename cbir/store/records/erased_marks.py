"""Marks of erased content: keyed hashes, and which of them came from another collection."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete

from cbir.store.base import metadata
from cbir.store.base.schema import AT_ONCE, erased
from cbir.store.base.secret_key import read_secret

MIRRORED = "mirrored_marks"  # key in `meta`


@dataclass(frozen=True)
class Mirrored:
    """Marks that were carried over from another collection, as of its latest `change`."""

    change: int = 0
    marks: frozenset[str] = frozenset()


def content_marker(folder: Path) -> Callable[[str], str]:
    """Return the function that computes the mark of a content hash in the collection in `folder`.

    The mark is what remains of an erased image: only a person who has the image and the collection's key can tell
    that it was erased.
    """
    key = read_secret(folder)

    def mark(content_hash: str) -> str:
        content = content_hash.encode()
        return hashlib.blake2b(content, key=key, digest_size=16, person=b"erased content").hexdigest()

    return mark


def read_mirrored(connection: Connection) -> Mirrored:
    """Return the marks that were carried over from another collection."""
    text = metadata.find_value(connection, MIRRORED)
    if text is None:
        return Mirrored()
    noted = json.loads(text)
    return Mirrored(noted["change"], frozenset(noted["marks"]))


def claim_marks(connection: Connection, marks: Iterable[str]) -> None:
    """Note that content was erased in this collection itself, even if its marks were carried over before."""
    mirrored = read_mirrored(connection)
    if own := mirrored.marks.intersection(marks):
        noted = {"change": mirrored.change, "marks": sorted(mirrored.marks - own)}
        metadata.set_value(connection, MIRRORED, json.dumps(noted))


def delete_marks(connection: Connection, marks: Iterable[str]) -> None:
    """Delete marks: their content may be added again."""
    ordered = sorted(marks)
    for start in range(0, len(ordered), AT_ONCE):
        connection.execute(delete(erased).where(erased.c.mark.in_(ordered[start : start + AT_ONCE])))
