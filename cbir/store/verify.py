"""Integrity check of a collection's files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DatabaseError

from cbir.atomic import SUFFIX
from cbir.errors import CollectionDamaged
from cbir.store import descriptor_model, originals, stored_snapshot
from cbir.store.agreement import describe_disagreement, differing_numbers, open_intact_snapshot
from cbir.store.collection import Collection
from cbir.store.collection_view import vector_pages
from cbir.store.damage import describe_damage_of
from cbir.store.key_evidence import require_key
from cbir.store.quarantine import quarantine_problems
from cbir.store.restore_advice import restore_advice
from cbir.store.row_damage import Progress, missing_vectors, row_problems
from cbir.store.row_totals import changed_history
from cbir.store.schema import CHECKED, images, vectors
from cbir.store.snapshot import Snapshot, SnapshotInfo, file_checksum, open_snapshot
from cbir.store.statements import is_postgresql
from cbir.store.tombstones import deleted_numbers
from cbir.store.vector_format import VectorFormat, vector_format
from cbir.store.verify_files import COMPACT, backup_problems, copy_problems, derived_problems, is_backup

LISTED = 5  # originals named in a message


def verify_collection(collection: Collection, progress: Progress | None = None) -> list[str]:
    """Read all files of a collection, or of a backup, and compare them with their checksums; return the problems.

    Damage of the snapshot or the last good copy alone loses no data: `cbir collection compact` writes them again.

    Parameters
    ----------
    collection : Collection
    progress : callable, optional
        Called with stage, steps done and steps in all.
    """
    problems = verify_content(collection, progress)
    if is_backup(collection):
        return problems + backup_problems(collection.folder)
    try:
        problems = problems or _vector_problems(collection) or snapshot_problems(collection)
    except CollectionDamaged as damage:
        problems = [str(damage)]
    except DatabaseError as error:
        return [describe_damage_of(collection.folder, error)]
    return problems + derived_problems(collection.folder) + copy_problems(collection)


def verify_content(collection: Collection, progress: Progress | None = None) -> list[str]:
    """Check everything that is not derived from the database: key, model, database and originals.

    `progress` is called as by `verify_collection`. Without the right key nothing else is read.
    """
    try:
        with collection._engine.connect() as connection:
            require_key(connection, collection.folder)
    except CollectionDamaged as damage:
        return [str(damage)]
    except DatabaseError as error:
        return [describe_damage_of(collection.folder, error)]
    model_problem = descriptor_model.model_problem(collection.folder, collection.profile)
    if model_problem:
        return [f"{model_problem}; restore the model's folder ({descriptor_model.FOLDER}) from a backup"]
    try:
        problems = database_problems(collection, progress)
    except DatabaseError as error:
        return [describe_damage_of(collection.folder, error)]
    return problems + _original_problems(collection, progress)


def database_problems(collection: Collection, progress: Progress | None = None) -> list[str]:
    """Check the structure of the database, and each row against its checksum."""
    with collection._engine.connect() as connection:
        problems = [] if is_postgresql(connection) else _structure_problems(connection, collection.folder)
        problems += missing_vectors(connection)
        if not problems:
            problems += _size_problems(connection, vector_format(collection.profile))
        problems += row_problems(connection, CHECKED, progress=progress)
        problems += [] if is_postgresql(connection) else _history_problems(connection)
        return problems + quarantine_problems(connection)


def _history_problems(connection: Connection) -> list[str]:
    changed = changed_history(connection)
    return (
        [
            f"rows of the history ({', '.join(changed)}) are not what was written; compare it with that of a backup, "
            "then `cbir collection verify --repair` takes it as it is"
        ]
        if changed
        else []
    )


def _structure_problems(connection: Connection, folder: Path) -> list[str]:
    """Check a SQLite file; PostgreSQL checks every page that it reads, and keeps rows without an image out."""
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


def _vector_problems(collection: Collection) -> list[str]:
    """Compare all vectors with the snapshot if it is what was written."""
    with collection._engine.connect() as connection:
        intact = open_intact_snapshot(collection.folder, connection)
        differing: list[int] = []
        for page in vector_pages(connection, 0, vector_format(collection.profile)):
            differing += differing_numbers(*intact, *page) if intact else []
        return [describe_disagreement(connection, differing)] if differing else []


def snapshot_problems(collection: Collection) -> list[str]:
    with collection._engine.connect() as connection:
        info = stored_snapshot.read_snapshot_info(connection, collection.folder)
        if info is None:
            return []
        path = collection.folder / "snapshots" / info.file
        try:
            statistics = stored_snapshot.snapshot_statistics(connection, collection.folder, info)
            if statistics is None:
                return []
            snapshot = open_snapshot(path, info, statistics.dimensions)
        except CollectionDamaged as damage:
            return [f"{damage}; {COMPACT}"]
        neighbours = path.with_name(info.neighbours)
        if info.neighbours_checksum and not (
            neighbours.is_file() and file_checksum(neighbours) == info.neighbours_checksum
        ):
            return [f"the neighbours {neighbours.name} are missing or have changed; {COMPACT}"]
        candidates = path.with_name(info.candidates)
        if info.candidates_checksum and not (
            candidates.is_file() and file_checksum(candidates) == info.candidates_checksum
        ):
            return [f"the candidate index {candidates.name} is missing or has changed; {COMPACT}"]
        return _number_problems(connection, info, snapshot)


def _number_problems(connection: Connection, info: SnapshotInfo, snapshot: Snapshot) -> list[str]:
    """Compare the snapshot's image numbers with the database."""
    numbers = np.fromiter(connection.scalars(select(images.c.number).order_by(images.c.number)), np.int64)
    deleted = deleted_numbers(connection, info)
    covered = numbers[numbers <= info.last_number]
    if not np.array_equal(np.setdiff1d(snapshot.ids, deleted), covered):
        return [f"the snapshot {info.file} does not contain the images of the database; {COMPACT}"]
    return []


def _original_problems(collection: Collection, progress: Progress | None) -> list[str]:
    """Compare the originals with their names, which are hashes of their content."""
    folder = collection.folder / originals.FOLDER
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    changed = []
    for done, path in enumerate(paths, start=1):
        if path.suffix != SUFFIX and not originals.is_intact(path):
            changed.append(path.name)
        if progress:
            progress("originals", done, len(paths))
    problems = [f"{_listed(changed)} have changed; restore them from a backup"] if changed else []
    with collection._engine.connect() as connection:
        missing = originals.missing_originals(connection, collection.folder)
    if missing:
        problems.append(
            f"{_listed(missing)} are missing; restore them from a backup, or delete the images with these ids"
        )
    return problems


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)} originals ({', '.join(names[:LISTED])}{', ...' if len(names) > LISTED else ''})"
