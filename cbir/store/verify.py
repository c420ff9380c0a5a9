"""Integrity check of a collection's files."""

import numpy as np
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DatabaseError

from cbir.errors import CollectionDamaged
from cbir.store import embedding_model, metadata
from cbir.store.collection import Collection
from cbir.store.collection_view import load_vectors, vector_length
from cbir.store.normalisation import Statistics
from cbir.store.schema import images, tombstones, vectors
from cbir.store.snapshot import Snapshot, SnapshotInfo, file_checksum, open_snapshot

SAMPLE = 1000  # vectors of the snapshot compared with the database
REMEDY = "`cbir collection compact` writes it again"


def verify_collection(collection: Collection) -> list[str]:
    """Check model, database, vectors and snapshot against each other; return the problems, empty if there are none.

    Damage of the snapshot alone loses no data: `cbir collection compact` writes it again from the database.
    """
    try:
        collection.secret  # noqa: B018 - raises if the key file is damaged
    except CollectionDamaged as damage:
        return [str(damage)]
    model_problem = embedding_model.model_problem(collection.folder, collection.profile)
    if model_problem:
        return [f"{model_problem}; restore the model's folder ({embedding_model.FOLDER}) from a backup"]
    try:
        problems = _database_problems(collection)
        return problems or _vector_problems(collection) + _snapshot_problems(collection)
    except DatabaseError as error:
        return [f"the database is damaged: {error.orig}; restore it from a backup"]


def _database_problems(collection: Collection) -> list[str]:
    with collection._engine.connect() as connection:
        report = connection.scalars(text("PRAGMA integrity_check(10)")).all()
        orphans = connection.execute(text("PRAGMA foreign_key_check")).all()
        query = select(func.count()).select_from(images.outerjoin(vectors)).where(vectors.c.number.is_(None))
        without_vector = connection.scalar(query) or 0
    problems = [
        f"the database is damaged: {line}; restore it from a backup" for line in report if line != "ok"
    ]
    if orphans:
        problems.append(f"{len(orphans)} rows of the database belong to no image")
    if without_vector:
        problems.append(f"{without_vector} images have no vector; delete them and index their sources again")
    return problems


def _vector_problems(collection: Collection) -> list[str]:
    size = vector_length(collection.profile)
    with collection._engine.connect() as connection:
        other_size = func.length(vectors.c.vector) != 4 * size
        wrong = connection.scalar(select(func.count()).select_from(vectors).where(other_size)) or 0
        if wrong:
            return [f"{wrong} vectors do not have the {size} values of profile {collection.profile.name}"]
        raw, _ = load_vectors(connection, 0, size)
    not_finite = int((~np.isfinite(raw)).any(axis=1).sum())
    return [f"{not_finite} vectors contain values that are not finite numbers"] if not_finite else []


def _snapshot_problems(collection: Collection) -> list[str]:
    with collection._engine.connect() as connection:
        info, statistics = metadata.read_snapshot_info(connection), metadata.read_statistics(connection)
        if info is None or statistics is None:
            return []
        path = collection.folder / "snapshots" / info.file
        try:
            snapshot = open_snapshot(path, info, vector_length(collection.profile))
        except CollectionDamaged as damage:
            return [f"{damage}; {REMEDY}"]
        if file_checksum(path) != info.checksum:
            return [f"the snapshot {info.file} has changed since it was written; {REMEDY}"]
        neighbours = path.with_name(info.neighbours)
        if info.neighbours_checksum and not (
            neighbours.is_file() and file_checksum(neighbours) == info.neighbours_checksum
        ):
            return [f"the neighbours {neighbours.name} are missing or have changed; {REMEDY}"]
        return _content_problems(connection, info, snapshot, statistics)


def _content_problems(
    connection: Connection, info: SnapshotInfo, snapshot: Snapshot, statistics: Statistics
) -> list[str]:
    """Compare the snapshot's image numbers and a sample of its vectors with the database."""
    numbers = np.fromiter(connection.scalars(select(images.c.number).order_by(images.c.number)), np.int64)
    deleted = np.fromiter(connection.scalars(select(tombstones.c.number)), np.int64)
    covered = numbers[numbers <= info.last_number]
    if not np.array_equal(np.setdiff1d(snapshot.ids, deleted), covered):
        return [f"the snapshot {info.file} does not contain the images of the database; {REMEDY}"]
    sample = np.linspace(0, len(covered) - 1, min(SAMPLE, len(covered))).astype(int)
    for number in covered[sample].tolist():
        raw = connection.scalar(select(vectors.c.vector).where(vectors.c.number == number))
        stored = snapshot.vectors[np.searchsorted(snapshot.ids, number)]
        if raw is None or not np.array_equal(statistics.normalise(np.frombuffer(raw, "<f4")), stored):
            return [f"the snapshot {info.file} contains other vectors than the database; {REMEDY}"]
    return []
