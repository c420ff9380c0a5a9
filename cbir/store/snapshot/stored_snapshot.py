"""The current snapshot of a collection: noted in its database, or in its files folder if the database is PostgreSQL.

Each files folder has a snapshot of its own, with the statistics that it was normalised with: those of the database
may have been fitted again since, on another machine.
"""

import hashlib
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import Connection, delete

from cbir.errors import CollectionDamaged
from cbir.store.base import metadata, normalisation
from cbir.store.base.normalisation import Statistics
from cbir.store.base.permissions import file_mode
from cbir.store.base.schema import meta
from cbir.store.base.statements import is_postgresql
from cbir.store.snapshot.database_state import has_state
from cbir.store.snapshot.snapshot import SnapshotInfo
from cbir.system.atomic import write_bytes

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
