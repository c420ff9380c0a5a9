"""History of a collection: who changed what, and when. It contains image ids, and nothing about patients."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, exists, func, insert, select

from cbir.store.base import metadata
from cbir.store.base.schema import changed_images, changes, forgotten, images
from cbir.store.base.statements import Statement, is_postgresql

KINDS = ("added", "deleted", "labelled", "erased", "profile")
INSERT = Statement(
    'INSERT INTO changes (at, who, what, images, "first", "last") VALUES (?, ?, ?, ?, ?, ?) RETURNING change'
)
MAX_IDS = 100  # listed per change; `images` counts them all
KEPT_OF_IMAGE = 1000  # newest entries of an image that are kept
PRUNED_EVERY = 1000  # changes; each time, all entries are read


@dataclass(frozen=True)
class Change:
    """One change. images: number of images that it changed; image_ids: the first 100 of those not erased since."""

    change: int
    at: str
    who: str
    what: str
    images: int
    image_ids: tuple[str, ...]


def record_change(
    connection: Connection,
    who: str,
    what: str,
    count: int,
    image_ids: Sequence[str] = (),
    numbers: tuple[int, int] | None = None,
) -> None:
    """Add a change to the history.

    Parameters
    ----------
    connection : Connection
    who : str
        Name of the user or program.
    what : str
        One of `KINDS`.
    count : int
        Number of images that it changed.
    image_ids : sequence of str
        Their ids.
    numbers : (int, int), optional
        First and last number of added images, instead of their ids.
    """
    assert what in KINDS, what
    first, last = numbers or (None, None)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    number = INSERT.run(connection, at, who, what, count, first, last).scalar_one()
    if image_ids:
        rows = [{"change": number, "image_id": image_id} for image_id in image_ids]
        connection.execute(insert(changed_images), rows)
    if number % PRUNED_EVERY == 0:
        prune_entries_of_images(connection, number - PRUNED_EVERY)


def prune_entries_of_images(connection: Connection, since: int) -> None:
    """Keep the newest KEPT_OF_IMAGE entries of each image that changed after the change `since`.

    Changes without any image left go too. Indexes that follow the history miss nothing: a newer entry of the image
    is still there.
    """
    recent = select(changed_images.c.image_id).where(changed_images.c.change > since)
    age = func.row_number().over(
        partition_by=changed_images.c.image_id, order_by=changed_images.c.change.desc()
    )
    entries = select(changed_images, age.label("age")).where(changed_images.c.image_id.in_(recent)).subquery()
    old = connection.execute(
        select(entries.c.change, entries.c.image_id).where(entries.c.age > KEPT_OF_IMAGE)
    ).all()
    if not old:
        return
    entry = (changed_images.c.change == bindparam("number")) & (changed_images.c.image_id == bindparam("id"))
    connection.execute(delete(changed_images).where(entry), [{"number": row[0], "id": row[1]} for row in old])
    left = exists().where(changed_images.c.change == changes.c.change)
    emptied = delete(changes).where(changes.c.change == bindparam("number"), ~left)
    connection.execute(emptied, [{"number": number} for number in {row[0] for row in old}])


def forget_content(connection: Connection, content_hashes: Sequence[str]) -> None:
    """Remove the ids of all images with this content from the history; ids begin with the content hash."""
    if content_hashes:
        mark_incomplete(connection)  # other patients may have images with this content
    for content_hash in content_hashes:
        same = changed_images.c.image_id.startswith(content_hash)
        connection.execute(delete(changed_images).where(same))


def prune_changes(connection: Connection, days: int) -> None:
    """Delete changes older than some `days`; the others keep their numbers, and numbers are not used again."""
    old = changes.c.at <= _days_ago(days)
    if is_postgresql(connection):  # the last names the state of the database
        old &= changes.c.change < select(func.max(changes.c.change)).scalar_subquery()
    mark_incomplete(connection, old)
    connection.execute(delete(changes).where(old))


def mark_incomplete(connection: Connection, *conditions: ColumnElement[bool]) -> None:
    """Note that changes for which `conditions` hold are missing from the history, for indexes that follow it."""
    last = connection.scalar(select(func.max(changes.c.change)).where(*conditions))
    earlier = int(metadata.find_value(connection, metadata.INCOMPLETE_CHANGES) or 0)
    if last and last > earlier:
        metadata.set_value(connection, metadata.INCOMPLETE_CHANGES, str(last))


def prune_deletions(connection: Connection, days: int) -> None:
    """Forget the content that users deleted more than some `days` ago: indexing its files adds it again."""
    connection.execute(delete(forgotten).where(forgotten.c.at <= _days_ago(days)))


def _days_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")


def read_changes(connection: Connection, before: int | None = None, limit: int = 100) -> list[Change]:
    """Return changes, the newest first.

    Parameters
    ----------
    connection : Connection
    before : int, optional
        Only changes with a smaller number.
    limit : int
        Largest number of changes.
    """
    query = select(changes).order_by(changes.c.change.desc()).limit(limit)
    if before is not None:
        query = query.where(changes.c.change < before)
    return [
        Change(row.change, row.at, row.who, row.what, row.images, _image_ids(connection, row))
        for row in connection.execute(query).all()
    ]


def read_additions(connection: Connection) -> list[tuple[str, int, int]]:
    """Return when images were added, with their first and last number, in order; without pruned changes."""
    query = select(changes.c.at, changes.c.first, changes.c.last).where(changes.c.first.is_not(None))
    return [(row.at, row.first, row.last) for row in connection.execute(query.order_by(changes.c.change))]


def _image_ids(connection: Connection, row: Row[Any]) -> tuple[str, ...]:
    if row.first is not None:
        added = images.c.number.between(row.first, row.last)
        query = select(images.c.image_id).where(added).order_by(images.c.number)
    else:
        query = select(changed_images.c.image_id).where(changed_images.c.change == row.change)
    return tuple(connection.scalars(query.limit(MAX_IDS)))
