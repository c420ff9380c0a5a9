"""What a collection derives from its database: statistics, snapshot, neighbourhood and last good copy."""

from pathlib import Path

from sqlalchemy import Engine, delete, func, select, text

from cbir.gallery import knn, whitening
from cbir.store import facts, last_good, schema, statistics, view
from cbir.store import snapshot as snapshots
from cbir.store.knn_file import write_knn
from cbir.store.profile import Profile
from cbir.store.schema import tombstones, vectors
from cbir.store.snapshot import SnapshotInfo

STALE_SHARE = 0.05  # of the snapshot, added or deleted since: then an indexing run makes a new one


def is_stale(folder: Path, engine: Engine) -> bool:
    """Whether there is no snapshot, or too much has changed since it was written."""
    with engine.connect() as connection:
        info = facts.snapshot(connection)
        after = vectors.c.number > (info.last_number if info else 0)
        added = connection.scalar(select(func.count()).select_from(vectors).where(after)) or 0
        buried = connection.scalar(select(func.count()).select_from(tombstones)) or 0
    return not info or not _intact(folder, info) or added + buried > STALE_SHARE * info.images


def _intact(folder: Path, info: SnapshotInfo) -> bool:
    path = folder / "snapshots" / info.file
    linked = info.neighbours_checksum is not None and path.with_name(info.neighbours).is_file()
    return linked and path.is_file() and path.stat().st_size == info.size


def renew(folder: Path, engine: Engine, refit: bool = False) -> None:
    """Write the derived index anew from the database and switch to it; `refit` learns new statistics."""
    with engine.connect() as connection:
        profile = Profile.model_validate_json(facts.need(connection, "profile"))
        fitted = None if refit else facts.statistics(connection)
        generation = int(facts.need(connection, "generation")) + 1
        last = connection.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = 'images'")) or 0
        count = connection.scalar(select(func.count()).select_from(vectors)) or 0
        if count or fitted:
            flat, matrix = snapshots.allocate(count, view.dimensions(profile))
            _, numbers = view.load_vectors(connection, 0, matrix.shape[1], into=matrix)
    if not count and not fitted:
        _forget(folder, engine)  # nothing to learn statistics from, and none may outlive the images
        return
    fitted = fitted or statistics.fit(matrix, profile)
    fitted.normalise(matrix, out=matrix)
    place = folder / "snapshots"
    place.mkdir(exist_ok=True)
    name = f"{generation}.index"
    size, checksum = snapshots.write(place / name, flat, numbers)
    info = SnapshotInfo(
        file=name, generation=generation, images=count, last_number=last, size=size, checksum=checksum
    )
    found = knn.find(matrix, whitening.fit(matrix, view.parts(profile)))
    info.neighbours_checksum = write_knn(place / info.neighbours, found)
    with engine.begin() as connection:
        facts.store(connection, "statistics", fitted.to_json())
        facts.store(connection, "snapshot", info.model_dump_json())
        connection.execute(delete(tombstones))
        facts.count_up(connection)
    kept = (name, info.neighbours)
    last_good.keep(folder, engine, (*(f"snapshots/{file}" for file in kept), schema.SECRET))
    for other in place.iterdir():
        if other.name not in kept and other.is_file():
            other.unlink(missing_ok=True)


def _forget(folder: Path, engine: Engine) -> None:
    """Remove statistics and snapshots: of an empty collection they would tell of images that are gone."""
    with engine.begin() as connection:
        connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(("statistics", "snapshot"))))
        connection.execute(delete(tombstones))
        facts.count_up(connection)
    last_good.drop(folder)
    for file in (folder / "snapshots").glob("*"):
        file.unlink(missing_ok=True)
