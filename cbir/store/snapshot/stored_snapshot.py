"""The current snapshot of a collection, as its database notes it, and what tells whether it still belongs to that.

Each files folder of a collection in PostgreSQL has a snapshot of its own, noted there, with the statistics that it
was normalised with: those of the database may have been fitted again since, on another machine, or be shared by
several collections.

PostgreSQL can be taken back to an earlier state, and changed again from there: generations and image numbers are
then given a second time. Each entry of the history has a random token there; that of the last one names the state.
Carrying images over may give an image a number below that of others, which what was derived earlier does not expect:
the state then gets another numbering.

Tombstones are numbers of deleted images, so that snapshots that still have their vectors leave them out. In SQLite
they are those since the snapshot. PostgreSQL keeps them for ever, with the generation that deleted each: every
machine has a snapshot of its own, which may be older.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from sqlalchemy import Connection, Select, delete, func, insert, select

from cbir.errors import CollectionDamaged, raise_when_denied
from cbir.store.base import metadata, normalisation, schema
from cbir.store.base.collection_folder import file_mode
from cbir.store.base.damage import REPAIR
from cbir.store.base.metadata import required_value
from cbir.store.base.normalisation import Statistics
from cbir.store.base.schema import meta
from cbir.store.base.statements import is_postgresql
from cbir.store.postgresql import postgresql_schema
from cbir.store.snapshot.snapshot import SnapshotInfo
from cbir.system.files import write_bytes

NONE = ""  # of SQLite, which a restore puts into a folder of its own

NUMBERING = "numbering"  # key in `meta`

_LAST = "(SELECT change || ' ' || token FROM changes ORDER BY change DESC LIMIT 1)"

_META = f"(SELECT value FROM meta WHERE key = '{NUMBERING}')"

_STATE = f"SELECT value, {{last}}, {_META} FROM meta WHERE key = '{metadata.UNCHECKED}'"

_STATE_SQLITE, _STATE_POSTGRESQL = _STATE.format(last="NULL"), _STATE.format(last=_LAST)


def read_state(connection: Connection) -> tuple[int, str]:
    """Return the generation, and the name of the state."""
    query = _STATE_POSTGRESQL if is_postgresql(connection) else _STATE_SQLITE
    row = connection.exec_driver_sql(query).first()
    if row is None:
        raise CollectionDamaged(f"the collection's database does not contain its generation; {REPAIR}")
    generation, last, numbering = row
    return int(generation), (last or NONE) + (f"/{numbering}" if numbering else "")


def has_state(connection: Connection, state: str) -> bool:
    """Return whether the database is in this state or in a later one, with the same numbering."""
    last, _, numbering = state.partition("/")
    if (connection.exec_driver_sql(f"SELECT {_META}").scalar() or "") != numbering:
        return False
    if not is_postgresql(connection):
        return True
    if last == NONE:  # before the first change
        return connection.exec_driver_sql("SELECT NOT EXISTS (SELECT 1 FROM changes)").scalar() is True
    number, _, token = last.partition(" ")
    query = "SELECT CAST(token AS TEXT) FROM changes WHERE change = %s"
    return bool(connection.exec_driver_sql(query, (int(number),)).scalar() == token)


def note_renumbering(connection: Connection) -> None:
    """Note that images get numbers below others: all snapshots and vector indexes are to be made again."""
    metadata.set_value(connection, NUMBERING, secrets.token_hex(8))


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


TRANSFORM_ORIGIN = "shared_transform"  # in `meta`: where the statistics were fitted

FITTED_HERE, FITTED_ELSEWHERE = "here", "elsewhere"


def transform_origin(secret: bytes) -> str:
    """Return the name of the collection with this `secret`, as files of its transform have it."""
    return hmac.digest(secret, b"origin of a shared transform", "sha256").hex()[:16]


def is_shared(connection: Connection) -> bool:
    """Return whether the statistics were taken over: growth of the collection does not change them."""
    return metadata.find_value(connection, TRANSFORM_ORIGIN) is not None


def outlives_erasure(connection: Connection) -> bool:
    """Return whether the statistics say nothing about images of this collection, since they were fitted elsewhere."""
    return metadata.find_value(connection, TRANSFORM_ORIGIN) == FITTED_ELSEWHERE


def note_shared(connection: Connection, fitted_here: bool) -> None:
    """Note that the statistics were taken over; `fitted_here`: they were fitted to images of this collection."""
    metadata.set_value(connection, TRANSFORM_ORIGIN, FITTED_HERE if fitted_here else FITTED_ELSEWHERE)


def forget_shared(connection: Connection) -> None:
    """Note that the statistics are the collection's own."""
    connection.execute(delete(meta).where(meta.c.key == TRANSFORM_ORIGIN))


SNAPSHOT = "snapshot"  # in `meta`

SNAPSHOT_FILE = "snapshot.json"

ERASED_GENERATION = "erased_generation"  # key in `meta`: files that are not newer are to be written again


def read_snapshot_info(connection: Connection, folder: Path) -> SnapshotInfo | None:
    """Return the description of the snapshot of the collection in `folder`; None if there is none."""
    if not is_postgresql(connection):
        text = metadata.find_value(connection, SNAPSHOT)
        return SnapshotInfo.model_validate_json(text) if text else None
    try:
        info = SnapshotInfo.model_validate_json((folder / SNAPSHOT_FILE).read_bytes())
    except (FileNotFoundError, ValidationError):  # what is derived can be written again
        return None
    # Else the database was restored to an earlier state.
    return info if info.state is not None and has_state(connection, info.state) else None


def store_snapshot_info(connection: Connection, folder: Path, info: SnapshotInfo) -> None:
    """Make `info` describe the snapshot of the collection in `folder`, in the transaction of `connection`."""
    text = info.model_dump_json(exclude_none=True)
    if is_postgresql(connection):
        write_bytes(folder / SNAPSHOT_FILE, text.encode(), permissions=file_mode(folder))
    else:
        metadata.set_value(connection, SNAPSHOT, text)


def forget_snapshot(connection: Connection, folder: Path) -> None:
    """Let the collection in `folder` have no snapshot."""
    connection.execute(delete(meta).where(meta.c.key == SNAPSHOT))
    (folder / SNAPSHOT_FILE).unlink(missing_ok=True)


def snapshot_stamp(folder: Path) -> int:
    """Return a number that changes with the snapshot noted in `folder`; 0 if it is noted in the database."""
    try:
        return (folder / SNAPSHOT_FILE).stat().st_mtime_ns
    except OSError:
        return 0


def store_statistics(path: Path, info: SnapshotInfo, statistics: Statistics) -> None:
    """Store the statistics of the snapshot at `path` beside it, and note them in its description `info`."""
    text = statistics.to_json()
    info.statistics_fingerprint = fingerprint(text)
    write_bytes(path.with_name(info.statistics), text.encode(), permissions=file_mode(path.parent))


def snapshot_statistics(connection: Connection, folder: Path, info: SnapshotInfo | None) -> Statistics | None:
    """Return the statistics that the snapshot `info` of the collection in `folder` was normalised with.

    Without a snapshot, those of the database of `connection`. Raises CollectionDamaged.
    """
    if info is None or info.statistics_fingerprint is None:
        return metadata.read_statistics(connection)
    try:
        with raise_when_denied(folder / "snapshots"):
            text = (folder / "snapshots" / info.statistics).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionDamaged(f"the statistics {info.statistics} cannot be read") from error
    if fingerprint(text) != info.statistics_fingerprint:
        raise CollectionDamaged(f"the statistics {info.statistics} have changed since they were written")
    return normalisation.read_statistics(text)


def note_erasure(connection: Connection) -> None:
    """Note that patients were erased in this transaction: every machine is to write its files again."""
    metadata.set_value(connection, ERASED_GENERATION, metadata.required_value(connection, "generation"))


def snapshot_is_outdated(connection: Connection, info: SnapshotInfo) -> bool:
    """Return whether statistics were fitted, or patients erased, elsewhere since the snapshot was written."""
    if not is_postgresql(connection):
        return False
    erased = int(metadata.find_value(connection, ERASED_GENERATION) or 0)
    return info.generation < erased or info.statistics_fingerprint != statistics_fingerprint(connection)


def statistics_fingerprint(connection: Connection) -> str | None:
    """Return the name of the database's statistics; None until an indexing run has ended."""
    text = metadata.find_value(connection, "statistics")
    return fingerprint(text) if text else None


def fingerprint(statistics: str) -> str:
    """Return the name of serialised statistics: two with the same name normalise alike."""
    return hashlib.blake2b(statistics.encode(), digest_size=16).hexdigest()
