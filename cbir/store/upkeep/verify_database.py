"""Integrity check of a collection's database, and of the snapshot that was derived from it."""

from pathlib import Path

import numpy as np
from sqlalchemy import Connection, func, select, text

from cbir.errors import CollectionDamaged
from cbir.store.base.restore_advice import restore_advice
from cbir.store.base.schema import CHECKED, images, vectors
from cbir.store.base.statements import is_postgresql
from cbir.store.base.vector_format import VectorFormat, vector_format
from cbir.store.collection import Collection
from cbir.store.records.quarantine import quarantine_problems
from cbir.store.safety.row_damage import (
    Progress,
    history_problems,
    missing_vectors,
    row_problems,
    type_problems,
)
from cbir.store.safety.write_ahead_log import require_sound_log
from cbir.store.snapshot import stored_snapshot
from cbir.store.snapshot.snapshot import Snapshot, SnapshotInfo, file_checksum, open_snapshot
from cbir.store.snapshot.tombstones import deleted_numbers

COMPACT = "`cbir collection compact` writes it again"
TRIES = 3  # of files that another process replaces meanwhile


def database_problems(collection: Collection, progress: Progress | None = None) -> list[str]:
    """Check the structure of the database, and each row against its checksum."""
    with collection._engine.connect() as connection:
        problems = [] if is_postgresql(connection) else _structure_problems(connection, collection.folder)
        problems += missing_vectors(connection)
        if not problems:
            problems += _size_problems(connection, vector_format(collection.profile))
        problems += row_problems(connection, CHECKED, progress=progress)
        if not is_postgresql(connection):
            problems += history_problems(connection) + type_problems(connection)
        return problems + quarantine_problems(connection)


def _structure_problems(connection: Connection, folder: Path) -> list[str]:
    """Check a SQLite file and its log; PostgreSQL checks what it reads, and keeps rows without an image out."""
    require_sound_log(folder)
    report = connection.scalars(text("PRAGMA integrity_check(10)")).all()
    orphans = connection.execute(text("PRAGMA foreign_key_check")).all()
    problems = [
        f"the database is damaged ({line}); {restore_advice(folder)}" for line in report if line != "ok"
    ]
    if orphans:
        problems.append(f"{len(orphans)} rows of the database belong to no image")
    return problems


def _size_problems(connection: Connection, stored_format: VectorFormat) -> list[str]:
    other_size = func.length(vectors.c.vector) != stored_format.size
    wrong = connection.scalar(select(func.count()).select_from(vectors).where(other_size)) or 0
    return (
        [f"{wrong} vectors do not have the {stored_format.dimensions} values of the profile"] if wrong else []
    )


def snapshot_problems(collection: Collection) -> list[str]:
    """Check the snapshot and the files beside it; again, if another process replaces them meanwhile."""
    for _ in range(TRIES):
        with collection._engine.connect() as connection:
            info = stored_snapshot.read_snapshot_info(connection, collection.folder)
            problems = [] if info is None else _snapshot_problems(connection, collection.folder, info)
        with collection._engine.connect() as connection:
            if not problems or stored_snapshot.read_snapshot_info(connection, collection.folder) == info:
                break
    return problems


def _snapshot_problems(connection: Connection, folder: Path, info: SnapshotInfo) -> list[str]:
    path = folder / "snapshots" / info.file
    try:
        statistics = stored_snapshot.snapshot_statistics(connection, folder, info)
        if statistics is None:
            return []
        snapshot = open_snapshot(path, info, statistics.dimensions)
    except CollectionDamaged as damage:
        return [f"{damage}; {COMPACT}"]
    problems = []
    if info.neighbours_checksum and not _is_intact(path.with_name(info.neighbours), info.neighbours_checksum):
        problems.append(f"the neighbours {info.neighbours} are missing or have changed; {COMPACT}")
    if info.half_checksum and not _is_intact(path.with_name(info.half), info.half_checksum):
        problems.append(f"the index {info.half} is missing or has changed; {COMPACT}")
    return problems or _number_problems(connection, info, snapshot)


def _is_intact(path: Path, checksum: str) -> bool:
    try:
        return file_checksum(path) == checksum
    except OSError:  # missing, or on a disk that fails
        return False


def _number_problems(connection: Connection, info: SnapshotInfo, snapshot: Snapshot) -> list[str]:
    """Compare the snapshot's image numbers with the database."""
    numbers = np.fromiter(connection.scalars(select(images.c.number).order_by(images.c.number)), np.int64)
    deleted = deleted_numbers(connection, info)
    covered = numbers[numbers <= info.last_number]
    if not np.array_equal(np.setdiff1d(snapshot.ids, deleted), covered):
        return [f"the snapshot {info.file} does not contain the images of the database; {COMPACT}"]
    return []
