"""Sort the images of a target that the source does not have: gone there, renumbered there, or never there."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, select

from cbir.store.base.schema import changed_images, changes, forgotten, images
from cbir.store.records.erased_marks import content_marker
from cbir.store.records.image_rows import batches, rows_matching

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
