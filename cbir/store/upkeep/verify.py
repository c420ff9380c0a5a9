"""Integrity check of a collection's files."""

from collections.abc import Sequence

from sqlalchemy.exc import DatabaseError

from cbir.errors import CollectionDamaged
from cbir.store.base import descriptor_model
from cbir.store.base.vector_format import vector_format
from cbir.store.collection import Collection
from cbir.store.records import originals
from cbir.store.records.key_evidence import require_key
from cbir.store.safety.damage import describe_damage_of
from cbir.store.safety.row_damage import Progress
from cbir.store.upkeep.verify_database import database_problems, snapshot_problems
from cbir.store.upkeep.verify_files import backup_problems, copy_problems, derived_problems, is_backup
from cbir.store.views.agreement import describe_disagreement, differing_numbers, open_intact_snapshot
from cbir.store.views.collection_view import vector_pages
from cbir.system.atomic import SUFFIX

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
    model_problem = descriptor_model.model_problem(collection.folder, collection.profile)
    if model_problem:
        return [
            f"{model_problem}; restore the model's folder ({descriptor_model.MODEL_FOLDER}) from a backup"
        ]
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
