"""Build the data derived from the database: statistics, snapshot, k-NN file and last good copy."""

from pathlib import Path

from sqlalchemy import Engine, delete, func, select, text

from cbir.atomic import sync_folder
from cbir.gallery import knn, whitening
from cbir.store import last_good, metadata, normalisation, schema
from cbir.store import snapshot as snapshots
from cbir.store.agreement import require_agreement
from cbir.store.collection_view import load_vectors, part_bounds, vector_length
from cbir.store.knn_file import write_knn
from cbir.store.permissions import folder_mode
from cbir.store.profile import Profile
from cbir.store.row_damage import require_sound_rows
from cbir.store.schema import tombstones, vectors
from cbir.store.snapshot import SnapshotInfo

STALE_SHARE = 0.05  # of the snapshot, added or deleted since: then an indexing run makes a new one


def index_is_stale(folder: Path, engine: Engine) -> bool:
    """Return True if there is no snapshot, or too much has changed since it was written."""
    with engine.connect() as connection:
        info = metadata.read_snapshot_info(connection)
        after = vectors.c.number > (info.last_number if info else 0)
        added = connection.scalar(select(func.count()).select_from(vectors).where(after)) or 0
        deleted = connection.scalar(select(func.count()).select_from(tombstones)) or 0
    return not info or not _intact(folder, info) or added + deleted > STALE_SHARE * info.images


def _intact(folder: Path, info: SnapshotInfo) -> bool:
    path = folder / "snapshots" / info.file
    with_neighbours = info.neighbours_checksum is not None and path.with_name(info.neighbours).is_file()
    return with_neighbours and path.is_file() and path.stat().st_size == info.size


def rebuild_index(folder: Path, engine: Engine, refit: bool = False) -> None:
    """Write the derived index from the database and switch to it.

    Raises CollectionDamaged, before it changes anything, if rows do not match their checksums, or the vectors not the
    present snapshot: damage must not spread to the only sound copies.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    engine : Engine
        Its database.
    refit : bool
        Fit new statistics.
    """
    with engine.connect() as connection:
        profile = Profile.model_validate_json(metadata.required_value(connection, "profile"))
        statistics = None if refit else metadata.read_statistics(connection)
        generation = int(metadata.required_value(connection, "generation")) + 1
        last = connection.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = 'images'")) or 0
        count = connection.scalar(select(func.count()).select_from(vectors)) or 0
        require_sound_rows(connection)
        if count or statistics:
            flat, matrix = snapshots.allocate_index(count, vector_length(profile))
            _, numbers = load_vectors(connection, 0, matrix.shape[1], into=matrix)
            require_agreement(folder, connection, matrix, numbers)
    if not count and not statistics:
        _drop_index(folder, engine)  # nothing to fit statistics to, and old ones must not outlive the images
        return
    statistics = statistics or normalisation.fit_statistics(matrix, profile)
    statistics.normalise(matrix, out=matrix)
    snapshot_folder = folder / "snapshots"
    snapshot_folder.mkdir(mode=folder_mode(folder), exist_ok=True)
    name = f"{generation}.index"
    size, checksum = snapshots.write_snapshot(snapshot_folder / name, flat, numbers)
    info = SnapshotInfo(
        file=name, generation=generation, images=count, last_number=last, size=size, checksum=checksum
    )
    neighbours = knn.find_neighbours(matrix, whitening.fit_space(matrix, part_bounds(profile)))
    info.neighbours_checksum = write_knn(snapshot_folder / info.neighbours, neighbours)
    with engine.begin() as connection:
        metadata.set_value(connection, "statistics", statistics.to_json())
        metadata.set_value(connection, "snapshot", info.model_dump_json())
        connection.execute(delete(tombstones))
        metadata.bump_generation(connection)
    current = (name, info.neighbours)
    last_good.store_last_good(folder, engine, (*(f"snapshots/{file}" for file in current), schema.SECRET))
    for path in snapshot_folder.iterdir():
        if path.name not in current and path.is_file():
            path.unlink(missing_ok=True)
    sync_folder(snapshot_folder)  # else a power cut could bring them back


def _drop_index(folder: Path, engine: Engine) -> None:
    """Delete statistics and snapshots: those of an emptied collection would reveal its images."""
    with engine.begin() as connection:
        connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(("statistics", "snapshot"))))
        connection.execute(delete(tombstones))
        metadata.bump_generation(connection)
    last_good.drop_last_good(folder)
    for file in (folder / "snapshots").glob("*"):
        file.unlink(missing_ok=True)
    sync_folder(folder / "snapshots")
    sync_folder(folder)
