"""Whether what lies on the disk is what a collection should be."""

import numpy as np
from sqlalchemy import func, select, text
from sqlalchemy.exc import DatabaseError

from cbir.errors import CollectionDamaged
from cbir.store import facts, model
from cbir.store.collection import Collection
from cbir.store.schema import images, tombstones, vectors
from cbir.store.snapshot import file_checksum, open_snapshot
from cbir.store.view import dimensions, load_vectors


def verify(collection: Collection) -> list[str]:
    """Check model, database, vectors and snapshot against each other; what is wrong, in words, empty where nothing.

    Damage of the snapshot alone loses nothing: `cbir collection compact` writes it anew from the database.
    """
    try:
        collection.secret  # noqa: B018 - raises where the key file is damaged
    except CollectionDamaged as damage:
        return [str(damage)]
    wrong = model.problem(collection.folder, collection.profile)
    if wrong:
        return [f"{wrong}; put the model's folder back in its place ({model.FOLDER})"]
    try:
        problems = _database(collection)
        return problems or _vectors(collection) + _snapshot(collection)
    except DatabaseError as error:
        return [f"the database is damaged: {error.orig}; restore it from a backup"]


def _database(collection: Collection) -> list[str]:
    with collection.engine.connect() as connection:
        said = connection.scalars(text("PRAGMA integrity_check(10)")).all()
        broken = connection.execute(text("PRAGMA foreign_key_check")).all()
        counted = (
            select(func.count()).select_from(images.outerjoin(vectors)).where(vectors.c.number.is_(None))
        )
        without = connection.scalar(counted) or 0
    problems = [f"the database is damaged: {line}; restore it from a backup" for line in said if line != "ok"]
    if broken:
        problems.append(f"{len(broken)} rows of the database belong to no image")
    if without:
        problems.append(f"{without} images have no vector; delete them and index their sources again")
    return problems


def _vectors(collection: Collection) -> list[str]:
    size = dimensions(collection.profile)
    with collection.engine.connect() as connection:
        odd = func.length(vectors.c.vector) != 4 * size
        wrong = connection.scalar(select(func.count()).select_from(vectors).where(odd)) or 0
        if wrong:
            return [f"{wrong} vectors do not have the {size} values of profile {collection.profile.name}"]
        raw, _ = load_vectors(connection, 0, size)
    strange = int((~np.isfinite(raw)).any(axis=1).sum())
    return [f"{strange} vectors hold values that are not finite numbers"] if strange else []


def _snapshot(collection: Collection) -> list[str]:
    with collection.engine.connect() as connection:
        info, fitted = facts.snapshot(connection), facts.statistics(connection)
        if info is None or fitted is None:
            return []
        numbers = np.fromiter(connection.scalars(select(images.c.number).order_by(images.c.number)), np.int64)
        buried = np.fromiter(connection.scalars(select(tombstones.c.number)), np.int64)
        size = dimensions(collection.profile)
        path = collection.folder / "snapshots" / info.file
        mend = "`cbir collection compact` writes it anew"
        try:
            opened = open_snapshot(path, info, size)
            if file_checksum(path) != info.checksum:
                return [f"the snapshot {info.file} has changed since it was written; {mend}"]
            linked = path.with_name(info.neighbours)
            if info.neighbours_checksum and not (
                linked.is_file() and file_checksum(linked) == info.neighbours_checksum
            ):
                return [f"the neighbours {linked.name} are missing or have changed; {mend}"]
        except CollectionDamaged as damage:
            return [f"{damage}; {mend}"]
        covered = numbers[numbers <= info.last_number]
        if not np.array_equal(np.setdiff1d(opened.ids, buried), covered):
            return [f"the snapshot {info.file} does not hold the images of the database; {mend}"]
        sample = np.linspace(0, len(covered) - 1, min(1000, len(covered))).astype(int)
        for number in covered[sample].tolist():
            raw = connection.scalar(select(vectors.c.vector).where(vectors.c.number == number))
            stored = opened.vectors[np.searchsorted(opened.ids, number)]
            if raw is None or not np.array_equal(fitted.normalise(np.frombuffer(raw, "<f4")), stored):
                return [f"the snapshot {info.file} holds other vectors than the database; {mend}"]
    return []
