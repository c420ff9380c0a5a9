"""The history of a collection: who did what, and when. It names images by their ids, and nothing of a patient."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select

from cbir.store.schema import AT_ONCE, changed_images, changes, images

WHAT = ("added", "deleted", "labelled", "erased", "profile")
NOTE = 'INSERT INTO changes (at, who, what, images, "first", "last") VALUES (?, ?, ?, ?, ?, ?)'
NAMED = 100  # ids told of one change; `images` counts them all


@dataclass(frozen=True)
class Change:
    """One change. images: how many it concerned; image_ids: the first 100 of those that are not erased."""

    change: int
    at: str
    who: str
    what: str
    images: int
    image_ids: tuple[str, ...]


def note(
    connection: Connection,
    who: str,
    what: str,
    count: int,
    image_ids: Sequence[str] = (),
    numbers: tuple[int, int] | None = None,
) -> None:
    """Add a change. numbers: the first and the last of images that were added, instead of their ids."""
    assert what in WHAT, what
    first, last = numbers or (None, None)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    number = connection.exec_driver_sql(NOTE, (at, who, what, count, first, last)).lastrowid
    if image_ids:
        rows = [{"change": number, "image_id": image_id} for image_id in image_ids]
        connection.execute(insert(changed_images), rows)


def forget(connection: Connection, image_ids: Sequence[str]) -> None:
    """Take images out of the history, as if they had never had a name."""
    for start in range(0, len(image_ids), AT_ONCE):
        part = image_ids[start : start + AT_ONCE]
        connection.execute(delete(changed_images).where(changed_images.c.image_id.in_(part)))


def forget_pictures(connection: Connection, content_hashes: Sequence[str]) -> None:
    """Take all images that showed these pictures out of the history; their ids begin with the content hash."""
    for content_hash in content_hashes:
        named = changed_images.c.image_id.startswith(content_hash)
        connection.execute(delete(changed_images).where(named))


def read(connection: Connection, before: int | None = None, limit: int = 100) -> list[Change]:
    """The newest changes first; `before`: only those with a smaller number."""
    query = select(changes).order_by(changes.c.change.desc()).limit(limit)
    if before is not None:
        query = query.where(changes.c.change < before)
    return [
        Change(row.change, row.at, row.who, row.what, row.images, _ids(connection, row))
        for row in connection.execute(query).all()
    ]


def _ids(connection: Connection, row: object) -> tuple[str, ...]:
    first, last, change = row.first, row.last, row.change  # type: ignore[attr-defined]
    if first is not None:
        query = (
            select(images.c.image_id).where(images.c.number.between(first, last)).order_by(images.c.number)
        )
    else:
        query = select(changed_images.c.image_id).where(changed_images.c.change == change)
    return tuple(connection.scalars(query.limit(NAMED)))
