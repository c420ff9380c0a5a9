"""Integrity check of a collection: its database, the snapshot that was derived from it, and the files beside it."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DatabaseError

from cbir.errors import CbirError, CollectionDamaged
from cbir.store.base import collection_folder, metadata, stored_models
from cbir.store.base.damage import describe_damage_of, restore_advice
from cbir.store.base.profile import VectorFormat, vector_format
from cbir.store.base.schema import CHECKED, images, vectors
from cbir.store.base.statements import is_postgresql
from cbir.store.collection import Collection
from cbir.store.records import originals
from cbir.store.records.patient_key import KEY_CHECK, require_key
from cbir.store.records.quarantine import quarantine_problems
from cbir.store.safety import last_good
from cbir.store.safety.change_log import MADE_AT, has_lost_manifest
from cbir.store.safety.database_files import require_sound_log
from cbir.store.safety.last_good import differing_definitions
from cbir.store.safety.row_damage import (
    Progress,
    history_problems,
    missing_vectors,
    row_problems,
    type_problems,
)
from cbir.store.snapshot import derived_files, stored_snapshot
from cbir.store.snapshot.snapshot import Snapshot, SnapshotInfo, file_checksum, open_snapshot
from cbir.store.snapshot.stored_snapshot import deleted_numbers
from cbir.store.upkeep.backup_log import LOG_FILE, log_problems
from cbir.store.views.collection_view import vector_pages
from cbir.store.views.snapshot_check import describe_disagreement, differing_numbers, open_intact_snapshot
from cbir.system.files import SUFFIX

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
    if info.codes_checksum and not _is_intact(path.with_name(info.codes), info.codes_checksum):
        problems.append(f"the codes {info.codes} are missing or have changed; {COMPACT}")
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


def is_backup(collection: Collection) -> bool:
    """Return whether a collection is a backup, whose snapshot `restore` makes again."""
    try:
        return collection.is_local and collection._read(metadata.find_value, MADE_AT) is not None
    except CollectionDamaged:
        return (collection.folder / collection_folder.MANIFEST_NAME).exists()


def backup_problems(backup: Collection) -> list[str]:
    """Compare the files of a backup with its manifest, and read its log; old backups have no manifest."""
    folder = backup.folder
    try:
        if backup._read(has_lost_manifest, folder):
            return [
                f"the manifest {collection_folder.MANIFEST_NAME} of {folder} is missing; use another backup"
            ]
        changed = collection_folder.changed_files(folder)
    except CollectionDamaged as damage:
        return [f"{damage}; use another backup"]
    problems = (
        [f"files of the backup are missing or have changed: {', '.join(changed)}; use another backup"]
        if changed
        else []
    )
    return problems + (log_problems(folder) if (folder / LOG_FILE).is_file() else [])


def derived_problems(folder: Path) -> list[str]:
    """Read the map, the audit, the cells and the severity ranker of the collection in `folder`, if it has them."""
    problems = []
    for read in (derived_files.read_map, derived_files.read_audit_file, derived_files.read_cells):
        try:
            read(folder)
        except CollectionDamaged as damage:
            problems.append(str(damage))
    for name, remedy in (
        (derived_files.CELLS, "delete the folder and run `cbir collection regions` again"),
        (stored_models.SEVERITY_FOLDER, "restore the folder from a backup, or train again"),
    ):
        try:
            if changed := collection_folder.changed_files(folder / name):
                problems.append(
                    f"files in {name} are missing or have changed: {', '.join(changed)}; {remedy}"
                )
        except CollectionDamaged as damage:
            problems.append(f"{damage}; {remedy}")
    return problems


def copy_problems(collection: Collection) -> list[str]:
    """Check the last good copy, which restores the collection, its rows and its key: database, snapshot and key."""
    copy = collection.folder / last_good.NAME
    for _ in range(TRIES):
        before = _state(copy)
        problems = _copy_problems(copy, collection) if copy.is_dir() else []
        if not problems or _state(copy) == before:
            break
    if problems:
        return [f"the last good copy is damaged ({problems[0]}); {COMPACT}"]
    return _definition_problems(copy, collection) if copy.is_dir() else []


def _definition_problems(copy: Path, collection: Collection) -> list[str]:
    with (
        closing(Collection(copy)) as opened,
        collection._engine.connect() as ours,
        opened._engine.connect() as theirs,
    ):
        names = differing_definitions(ours, theirs)
    return (
        [f"the last good copy defines {', '.join(names)} in another way; restore a backup"] if names else []
    )


def _copy_problems(copy: Path, collection: Collection) -> list[str]:
    try:
        if changed := collection_folder.changed_files(copy):
            return [f"{', '.join(changed)} missing or changed"]
        with closing(Collection(copy)) as opened:
            if opened.secret != collection.secret:
                return ["it has another key"]
            has_manifest = (copy / collection_folder.MANIFEST_NAME).exists()
            if not has_manifest and opened._read(metadata.find_value, KEY_CHECK):  # old ones have neither
                return [f"its manifest {collection_folder.MANIFEST_NAME} is missing"]
            return database_problems(opened) or snapshot_problems(opened)
    except (CbirError, DatabaseError) as error:
        return [str(error)]


def _state(copy: Path) -> object:
    """Return what changes when the copy is replaced, or images are deleted from it."""
    try:
        status = (copy / collection_folder.MANIFEST_NAME).stat()
    except OSError:
        return copy.exists()
    return status.st_ino, status.st_mtime_ns


LISTED = 5  # originals named in a message


def verify_collection(collection: Collection, progress: Progress | None = None) -> list[str]:
    """Read all files of a collection, or of a backup, and compare them with their checksums; return the problems.

    Damage of the snapshot or the last good copy alone loses no data: `cbir collection compact` writes them again.

    Parameters
    ----------
    collection : Collection
    progress : callable, optional
        Called with stage, steps done and steps in all.

    Raises
    ------
    AccessDenied
        If this process may not read a file; then nothing is known.
    """
    collection_folder.require_readable(collection.folder)
    if key_problems := _key_problems(collection):
        return key_problems  # the right key decides what else is damaged
    problems = verify_content(collection, progress)
    if is_backup(collection):
        return problems + backup_problems(collection)
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
    if key_problems := _key_problems(collection):
        return key_problems
    model_problem = stored_models.model_problem(collection.folder, collection.profile)
    if model_problem:
        return [f"{model_problem}; restore the model's folder ({stored_models.MODEL_FOLDER}) from a backup"]
    try:
        problems = database_problems(collection, progress)
    except DatabaseError as error:
        return [describe_damage_of(collection.folder, error)]
    return problems + _original_problems(collection, progress)


def _key_problems(collection: Collection) -> list[str]:
    try:
        with collection._engine.connect() as connection:
            require_key(connection, collection.folder)
    except CollectionDamaged as damage:
        return [str(damage)]
    except DatabaseError as error:
        return [describe_damage_of(collection.folder, error)]
    return []


def _vector_problems(collection: Collection) -> list[str]:
    """Compare all vectors with the snapshot if it is what was written."""
    with collection._engine.connect() as connection:
        intact = open_intact_snapshot(collection.folder, connection)
        differing: list[int] = []
        for page in vector_pages(connection, 0, vector_format(collection.profile)):
            differing += differing_numbers(*intact, *page) if intact else []
        return [describe_disagreement(connection, differing)] if differing else []


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
