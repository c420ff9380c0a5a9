"""Erased patients when a collection is carried over: who is erased in the target stays out of it.

The target notes the marks that it got from the source. If content was restored in the source, such a mark goes; marks
of what was erased in the target itself stay.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, select

from cbir.store.base import metadata
from cbir.store.base.schema import changes, erased, forgotten, images, meta
from cbir.store.records.erased_marks import MIRRORED, content_marker, delete_marks, read_mirrored
from cbir.store.upkeep import carried_history


@dataclass(frozen=True)
class Erasures:
    """Records erased in the target.

    marks: all marks; own: those that the source does not have. keys: patients of whom the source still has content
    with such a mark; contents: theirs in the source.
    """

    folder: Path
    marks: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    contents: frozenset[str] = frozenset()

    def covered(self, content_hashes: Iterable[str]) -> set[str]:
        """Return those of the content hashes that must not come into the target."""
        if not self.marks:
            return set()
        mark = content_marker(self.folder)
        return {
            content for content in content_hashes if content in self.contents or mark(content) in self.marks
        }

    def has_copy(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row of `instance_copies` is of a patient who is erased in the target alone."""
        if not self.own:
            return False
        return row["patient_key"] in self.keys or content_marker(self.folder)(row["instance"]) in self.own

    def covered_ids(self, image_ids: Iterable[str]) -> set[str]:
        """Return those of the image ids whose content must not come into the target; ids begin with it."""
        by_id = {image_id: image_id.partition("-")[0] for image_id in image_ids}
        contents = self.covered(set(by_id.values()))
        return {image_id for image_id, content in by_id.items() if content in contents}


def erased_marks(connection: Connection) -> set[str]:
    """Return the marks of erased content."""
    return set(connection.scalars(select(erased.c.mark)))


def read_erasures(source: Connection, target: Connection, folder: Path) -> Erasures:
    """Read what is erased in the target.

    Parameters
    ----------
    source, target : Connection
    folder : Path
        Folder of the target.
    """
    marks = erased_marks(target)
    own = marks - erased_marks(source)
    if not own:
        return Erasures(folder, frozenset(marks))
    mark = content_marker(folder)
    rows = [
        (row.content_hash, row.patient_key)
        for table in (images, forgotten)
        for row in source.execute(select(table.c.content_hash, table.c.patient_key))
        if row.patient_key
    ]
    keys = frozenset(key for content, key in rows if mark(content) in own)
    contents = frozenset(content for content, key in rows if key in keys)
    return Erasures(folder, frozenset(marks), frozenset(own), keys, contents)


def drop_restored_marks(source: Connection, target: Connection) -> None:
    """Delete the marks that came from the source, if their content was restored there.

    A source that was itself restored, from a backup made before the patient was erased, has lost changes that the
    target has; then all marks stay, as if they were the target's own.
    """
    mirrored = read_mirrored(target)
    if not mirrored.marks:
        return
    lost = carried_history.last_number(source, changes.name) < mirrored.change or any(
        row.change <= mirrored.change for row in carried_history.own_changes(source, target)
    )
    if lost:
        target.execute(delete(meta).where(meta.c.key == MIRRORED))
        return
    if restored := mirrored.marks - erased_marks(source):
        delete_marks(target, restored)
        _store_mirrored(source, target, mirrored.marks - restored)
        metadata.bump_generation(target)


def note_mirrored(source: Connection, target: Connection, new: Iterable[str]) -> None:
    """Note that marks came from the source, besides those that did earlier.

    Parameters
    ----------
    source, target : Connection
    new : iterable of str
        Marks that the target did not have.
    """
    mirrored = read_mirrored(target).marks.union(new)
    if mirrored:
        _store_mirrored(source, target, mirrored)


def _store_mirrored(source: Connection, target: Connection, marks: Iterable[str]) -> None:
    noted = {"change": carried_history.last_number(source, changes.name), "marks": sorted(marks)}
    metadata.set_value(target, MIRRORED, json.dumps(noted))
