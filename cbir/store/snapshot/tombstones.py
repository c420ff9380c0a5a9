"""Numbers of deleted images, so that snapshots that still have their vectors leave them out.

In SQLite they are those since the snapshot. PostgreSQL keeps them for ever, with the generation that deleted each:
every machine has a snapshot of its own, which may be older.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, delete, func, insert, select

from cbir.store.base import schema
from cbir.store.base.metadata import required_value
from cbir.store.base.statements import is_postgresql
from cbir.store.postgresql import postgresql_schema
from cbir.store.snapshot.snapshot import SnapshotInfo


def store_tombstones(connection: Connection, numbers: Sequence[int]) -> None:
    """Store the numbers of images that the present transaction deletes."""
    if is_postgresql(connection):
        generation = int(required_value(connection, "generation")) + 1
        rows = [{"number": number, "generation": generation} for number in numbers]
        connection.execute(insert(postgresql_schema.tombstones), rows)
    else:
        connection.execute(insert(schema.tombstones), [{"number": number} for number in numbers])


def deleted_numbers(connection: Connection, info: SnapshotInfo | None) -> NDArray[np.int64]:
    """Return the numbers of the images deleted since a snapshot; possibly more, which it does not have."""
    query = deleted_since(connection, info.generation if info else 0)
    return np.fromiter(connection.scalars(query), np.int64)


def count_deleted(connection: Connection, info: SnapshotInfo | None) -> int:
    """Return the number of images deleted since a snapshot."""
    query = deleted_since(connection, info.generation if info else 0)
    return connection.scalar(select(func.count()).select_from(query.subquery())) or 0


def deleted_since(connection: Connection, generation: int) -> Select[Any]:
    """Return the query for the numbers deleted since a generation; in SQLite, since the snapshot."""
    if is_postgresql(connection):
        stone = postgresql_schema.tombstones.c
        return select(stone.number).where(stone.generation > generation)
    return select(schema.tombstones.c.number)


def forget_tombstones(connection: Connection) -> None:
    """Forget them where a new snapshot makes them superfluous."""
    if not is_postgresql(connection):
        connection.execute(delete(schema.tombstones))
