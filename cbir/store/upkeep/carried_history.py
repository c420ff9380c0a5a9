"""Copy the history of one collection to another, which has the same images under the same numbers."""

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, text

from cbir.errors import InvalidInput
from cbir.store.base.schema import changed_images, changes, images
from cbir.store.base.statements import is_postgresql
from cbir.store.postgresql.postgresql_schema import tombstones
from cbir.store.records import image_rows

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
