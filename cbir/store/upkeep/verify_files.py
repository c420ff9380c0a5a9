"""Integrity check of the files that lie beside a collection's database, and of a backup's."""

from contextlib import closing
from pathlib import Path

from sqlalchemy.exc import DatabaseError

from cbir.errors import CbirError, CollectionDamaged
from cbir.store.base import file_manifest, metadata, severity_model
from cbir.store.base.secret_key import KEY_CHECK
from cbir.store.collection import Collection
from cbir.store.safety import last_good
from cbir.store.safety.change_log import MADE_AT, has_lost_manifest
from cbir.store.safety.definitions import differing_definitions
from cbir.store.snapshot import audit_file, map_file, region_cells
from cbir.store.upkeep.backup_log import LOG_FILE, log_problems
from cbir.store.upkeep.verify_database import COMPACT, TRIES, database_problems, snapshot_problems


def is_backup(collection: Collection) -> bool:
    """Return whether a collection is a backup, whose snapshot `restore` makes again."""
    try:
        return collection.is_local and collection._read(metadata.find_value, MADE_AT) is not None
    except CollectionDamaged:
        return (collection.folder / file_manifest.MANIFEST_NAME).exists()


def backup_problems(backup: Collection) -> list[str]:
    """Compare the files of a backup with its manifest, and read its log; old backups have no manifest."""
    folder = backup.folder
    try:
        if backup._read(has_lost_manifest, folder):
            return [f"the manifest {file_manifest.MANIFEST_NAME} of {folder} is missing; use another backup"]
        changed = file_manifest.changed_files(folder)
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
    for read in (map_file.read_map, audit_file.read_audit_file, region_cells.read_cells):
        try:
            read(folder)
        except CollectionDamaged as damage:
            problems.append(str(damage))
    for name, remedy in (
        (region_cells.CELLS, "delete the folder and run `cbir collection regions` again"),
        (severity_model.SEVERITY_FOLDER, "restore the folder from a backup, or train again"),
    ):
        try:
            if changed := file_manifest.changed_files(folder / name):
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
        if changed := file_manifest.changed_files(copy):
            return [f"{', '.join(changed)} missing or changed"]
        with closing(Collection(copy)) as opened:
            if opened.secret != collection.secret:
                return ["it has another key"]
            has_manifest = (copy / file_manifest.MANIFEST_NAME).exists()
            if not has_manifest and opened._read(metadata.find_value, KEY_CHECK):  # old ones have neither
                return [f"its manifest {file_manifest.MANIFEST_NAME} is missing"]
            return database_problems(opened) or snapshot_problems(opened)
    except (CbirError, DatabaseError) as error:
        return [str(error)]


def _state(copy: Path) -> object:
    """Return what changes when the copy is replaced, or images are deleted from it."""
    try:
        status = (copy / file_manifest.MANIFEST_NAME).stat()
    except OSError:
        return copy.exists()
    return status.st_ino, status.st_mtime_ns
