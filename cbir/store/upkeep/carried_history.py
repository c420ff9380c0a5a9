"""History and erased patients when a collection is carried over: what is erased in the target stays out of it.

The target notes the marks that it got from the source. If content was restored in the source, such a mark goes;
marks of what was erased in the target itself stay. Images of the target that the source does not have are gone
there, renumbered there, or were never there.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, text

from cbir.errors import InvalidInput
from cbir.store.base import metadata
from cbir.store.base.schema import changed_images, changes, erased, forgotten, images, meta
from cbir.store.base.statements import is_postgresql
from cbir.store.postgresql.postgresql_schema import tombstones
from cbir.store.records import image_rows
from cbir.store.records.image_rows import (
    MIRRORED,
    batches,
    content_marker,
    delete_marks,
    read_mirrored,
    rows_matching,
)

PAGE = 2000  # changes compared at a time

KEPT = ("profile", "erased")  # changes that the target may have of its own

CoveredIds = Callable[[Iterable[str]], set[str]]

_SEQUENCE = "SELECT seq FROM sqlite_sequence WHERE name = :name"


def own_changes(source: Connection, target: Connection) -> list[Row[Any]]:
    """Return the changes of `target` that `source` does not have, and cannot have deleted from its history.

    Ids are not compared one by one, since erasing a patient removes some, in either.
    """
    last = last_number(source, changes.name)
    owned: list[Row[Any]] = []
    for first in range(0, last_number(target, changes.name) + 1, PAGE):
        query = select(changes).where(changes.c.change.between(first, first + PAGE - 1))
        theirs = {row.change: tuple(row) for row in source.execute(query)}
        their_ids, our_ids = (_ids_by_change(connection, first) for connection in (source, target))
        for row in target.execute(query.order_by(changes.c.change)).all():
            if row.change not in theirs:
                is_own = row.change > last
            else:
                ids, other_ids = our_ids.get(row.change, set()), their_ids.get(row.change, set())
                differs = bool(ids and other_ids) and ids.isdisjoint(other_ids)
                is_own = theirs[row.change] != tuple(row) or differs
            owned += [row] if is_own else []
    return owned


def _ids_by_change(connection: Connection, first: int) -> dict[int, set[str]]:
    """Return the ids that the changes of a page list."""
    ids: dict[int, set[str]] = {}
    query = select(changed_images).where(changed_images.c.change.between(first, first + PAGE - 1))
    for change, image_id in connection.execute(query):
        ids.setdefault(change, set()).add(image_id)
    return ids


def require_no_own_changes(source: Connection, target: Connection) -> None:
    """Raise InvalidInput if images of `target` were added, deleted or labelled there: that would be undone."""
    owned = [row for row in own_changes(source, target) if row.what not in KEPT]
    if owned:
        raise InvalidInput(
            f"the target has {len(owned)} changes of its own, the first of {owned[0].at} ({owned[0].what}), which "
            "would be lost; name another folder"
        )


def mirror_history(source: Connection, target: Connection, covered_ids: CoveredIds) -> None:
    """Make the history of `target` that of `source`, followed by what happened to `target` alone.

    Parameters
    ----------
    source, target : Connection
    covered_ids : callable
        Returns those of image ids that are erased in the target, so that its history does not name them.
    """
    last = last_number(source, changes.name)
    owned = own_changes(source, target)
    if all(row.change > last for row in owned):
        kept, owned = {row.change for row in owned}, []
    else:
        kept = set()
        target.execute(delete(changes).where(changes.c.change.in_([row.change for row in owned])))
    first, end = 0, max(last, last_number(target, changes.name))
    while first <= end:
        page = changes.c.change.between(first, first + PAGE - 1)
        theirs, ours = (
            {tuple(row) for row in c.execute(select(changes).where(page))} for c in (source, target)
        )
        if stale := [row[0] for row in ours - theirs if row[0] not in kept]:
            target.execute(delete(changes).where(changes.c.change.in_(stale)))
        _insert_rows(target, changes, theirs - ours)
        of_images = select(changed_images).where(changed_images.c.change.between(first, first + PAGE - 1))
        theirs, ours = ({tuple(row) for row in c.execute(of_images)} for c in (source, target))
        erased_ids = covered_ids({image_id for _, image_id in theirs})
        theirs = {row for row in theirs if row[1] not in erased_ids}
        for change, image_id in ours - theirs:
            same = (changed_images.c.change == change) & (changed_images.c.image_id == image_id)
            target.execute(delete(changed_images).where(same))
        _insert_rows(target, changed_images, theirs - ours)
        first += PAGE
    raise_last_number(target, changes.name, last)
    for row in owned:
        values = {name: value for name, value in row._mapping.items() if name != "change"}
        target.execute(insert(changes).values(values))


def last_number(connection: Connection, table: str) -> int:
    """Return the largest number that a row of the `table`, images or changes, has ever had."""
    if is_postgresql(connection):
        if table == images.name:
            return image_rows.last_number(connection)
        sequence = connection.execute(text("SELECT last_value, is_called FROM changes_change_seq")).one()
        return int(sequence.last_value) if sequence.is_called else 0
    return int(connection.execute(text(_SEQUENCE), {"name": table}).scalar() or 0)


def raise_last_number(connection: Connection, table: str, number: int) -> None:
    """Let the next row of a table have a number above `number`.

    Parameters
    ----------
    connection : Connection
    table : str
        Table whose numbers are never used twice.
    number : int
    """
    if number <= last_number(connection, table):
        return
    if is_postgresql(connection):
        if table == images.name:
            connection.execute(insert(tombstones).values(number=number, generation=0))
        else:
            connection.execute(text("SELECT setval('changes_change_seq', :number)"), {"number": number})
        return
    query = "DELETE FROM sqlite_sequence WHERE name = :name"
    connection.execute(text(query), {"name": table})
    query = "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)"
    connection.execute(text(query), {"name": table, "number": number})


def _insert_rows(connection: Connection, table: Any, rows: set[tuple[Any, ...]]) -> None:
    if rows:
        names = [column.name for column in table.c]
        connection.execute(
            insert(table), [dict(zip(names, row, strict=True)) for row in sorted(rows, key=repr)]
        )


ADDED = select(changes.c.first, changes.c.last, changes.c.change).where(
    changes.c.what == "added", changes.c.first.is_not(None)
)

COLUMNS = [images.c.number, images.c.image_id, images.c.content_hash, images.c.source, images.c.patient_key]


@dataclass(frozen=True)
class AbsentImages:
    """Rows of images whose numbers the source does not have.

    gone: deleted or erased in the source; unmarked: contents of erased patients' images that the source never had.
    moved: those that the source has under another number, with that number. kept: all others.
    """

    gone: list[Row[Any]]
    unmarked: set[str]
    moved: list[tuple[Row[Any], int]]
    kept: list[Row[Any]]


def sort_absent(
    source: Connection, target: Connection, folder: Path, numbers: Sequence[int], new_marks: set[str]
) -> AbsentImages:
    """Sort images of the target that the source does not have.

    A mark, or a deleted content, that the target knew already does not make an image go: it is another with the same
    content, which both kept.

    Parameters
    ----------
    source, target : Connection
    folder : Path
        Folder of the target.
    numbers : sequence of int
        Numbers of these images.
    new_marks : set of str
        Marks of content that was erased in the source, and that the target does not have yet.
    """
    rows = [
        row
        for some in batches(numbers)
        for row in target.execute(select(*COLUMNS).where(images.c.number.in_(some)))
    ]
    ids = [row.image_id for row in rows]
    columns = images.c.image_id, images.c.number
    moved = dict(tuple(row) for row in rows_matching(source, columns, images.c.image_id, ids))
    mark = content_marker(folder)
    absent = [row for row in rows if row.image_id not in moved]
    erased = {row.number for row in absent if new_marks and mark(row.content_hash) in new_marks}
    keys = {row.patient_key for row in absent if row.number in erased and row.patient_key}
    keys -= {row[0] for row in rows_matching(source, [images.c.patient_key], images.c.patient_key, keys)}
    unmarked = [row for row in absent if row.patient_key in keys and row.number not in erased]
    erased |= {row.number for row in unmarked}
    gone = erased | _deleted(source, target, absent)
    return AbsentImages(
        [row for row in absent if row.number in gone],
        {row.content_hash for row in unmarked},
        [(row, moved[row.image_id]) for row in rows if row.image_id in moved],
        [row for row in absent if row.number not in gone],
    )


def _deleted(source: Connection, target: Connection, rows: Sequence[Row[Any]]) -> set[int]:
    """Return the numbers of images that the source has deleted since the target got them."""
    columns = forgotten.c.content_hash, forgotten.c.checksum
    theirs, ours = (
        {tuple(row) for row in rows_matching(c, columns, columns[0], {row.content_hash for row in rows})}
        for c in (source, target)
    )
    contents = {content for content, _ in theirs - ours}
    deletions = set(source.scalars(select(changes.c.change).where(changes.c.what == "deleted")))
    deleted: dict[str, int] = {}
    columns = changed_images.c.image_id, changed_images.c.change
    for image_id, change in rows_matching(source, columns, columns[0], {row.image_id for row in rows}):
        if change in deletions:
            deleted[image_id] = max(change, deleted.get(image_id, 0))
    added = sorted({tuple(row) for c in (source, target) for row in c.execute(ADDED)})
    firsts = [first for first, _, _ in added]

    def was_added(number: int) -> int:
        """Return the change that added an image; 0 if the history no longer has it, which has deletions after it."""
        position = bisect_right(firsts, number) - 1
        return added[position][2] if position >= 0 and number <= added[position][1] else 0

    return {
        row.number
        for row in rows
        if row.content_hash in contents or deleted.get(row.image_id, 0) > was_added(row.number)
    }


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
    lost = last_number(source, changes.name) < mirrored.change or any(
        row.change <= mirrored.change for row in own_changes(source, target)
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
    noted = {"change": last_number(source, changes.name), "marks": sorted(marks)}
    metadata.set_value(target, MIRRORED, json.dumps(noted))
