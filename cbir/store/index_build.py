"""Build the data derived from the database: statistics, snapshot, k-NN file and last good copy."""

from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, delete, func, select, text

from cbir.atomic import sync_folder
from cbir.errors import InvalidInput
from cbir.gallery import knn, whitening
from cbir.gallery.candidate_index import build_candidate_index
from cbir.gallery.vector_blocks import VectorBlocks
from cbir.store import last_good, map_file, metadata, normalisation, region_cells, schema
from cbir.store import snapshot as snapshots
from cbir.store.agreement import require_agreement
from cbir.store.candidate_file import write_candidate_index
from cbir.store.collection_view import load_vectors, vector_pages
from cbir.store.knn_file import write_knn
from cbir.store.normalisation import Statistics
from cbir.store.permissions import folder_mode
from cbir.store.profile import Profile
from cbir.store.projection import Projection, fit_projection
from cbir.store.row_damage import require_sound_rows
from cbir.store.schema import tombstones, vectors
from cbir.store.snapshot import SnapshotInfo
from cbir.store.vector_format import vector_format

Matrix = NDArray[np.float32]

STALE_SHARE = 0.05  # of the snapshot, added or deleted since: then an indexing run makes a new one


def index_is_stale(folder: Path, engine: Engine) -> bool:
    """Return True if there is no snapshot, or too much has changed since it was written."""
    with engine.connect() as connection:
        info = metadata.read_snapshot_info(connection)
        after = vectors.c.number > (info.last_number if info else 0)
        added = connection.scalar(select(func.count()).select_from(vectors).where(after)) or 0
        deleted = connection.scalar(select(func.count()).select_from(tombstones)) or 0
    return not info or not _intact(folder, info) or added + deleted > STALE_SHARE * info.images


def statistics_are_outgrown(engine: Engine) -> bool:
    """Return True if the collection has grown so much that its statistics are to be fitted again."""
    with engine.connect() as connection:
        statistics = metadata.read_statistics(connection)
        count = connection.scalar(select(func.count()).select_from(vectors)) or 0
    return statistics is not None and normalisation.needs_refit(statistics, count)


def _intact(folder: Path, info: SnapshotInfo) -> bool:
    path = folder / "snapshots" / info.file
    complete = all(path.with_name(name).is_file() for name in info.files)
    return complete and info.neighbours_checksum is not None and path.stat().st_size == info.size


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
        with_candidates = metadata.find_value(connection, metadata.CANDIDATES) is not None
        generation = int(metadata.required_value(connection, "generation")) + 1
        last = connection.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = 'images'")) or 0
        count = connection.scalar(select(func.count()).select_from(vectors)) or 0
        require_sound_rows(connection)
        if count or statistics:
            normalise = _project if profile.is_projected else _standardise
            statistics, flat, matrix, numbers = normalise(folder, connection, profile, statistics, count)
    if statistics is None:
        _drop_index(folder, engine)  # nothing to fit statistics to, and old ones must not outlive the images
        return
    snapshot_folder = folder / "snapshots"
    snapshot_folder.mkdir(mode=folder_mode(folder), exist_ok=True)
    name = f"{generation}.index"
    size, checksum = snapshots.write_snapshot(snapshot_folder / name, flat, numbers)
    info = SnapshotInfo(
        file=name, generation=generation, images=count, last_number=last, size=size, checksum=checksum
    )
    parts = normalisation.part_bounds(profile, statistics)
    plain = profile.is_projected  # learned directions need no more whitening
    space = whitening.plain_space(matrix.shape[1]) if plain else whitening.fit_space(matrix, parts)
    neighbours = knn.find_neighbours(matrix, space)
    info.neighbours_checksum = write_knn(snapshot_folder / info.neighbours, neighbours)
    if with_candidates and count:
        info.candidates_checksum = _write_candidates(snapshot_folder / name, info, matrix)
    with engine.begin() as connection:
        metadata.set_value(connection, "statistics", statistics.to_json())
        metadata.set_value(connection, "snapshot", info.model_dump_json())
        connection.execute(delete(tombstones))
        metadata.bump_generation(connection)
    _keep_current_files(folder, engine, info)


def build_candidates(folder: Path, engine: Engine) -> SnapshotInfo:
    """Write the candidate index of the present snapshot and switch to it; later snapshots have one too.

    Raises InvalidInput without a snapshot, and CollectionDamaged if it cannot be read.
    """
    with engine.connect() as connection:
        info, statistics = metadata.read_snapshot_info(connection), metadata.read_statistics(connection)
    if info is None or statistics is None or not info.images:
        raise InvalidInput(
            f"{folder} has no snapshot to index; `cbir collection compact --collection {folder}` writes one"
        )
    path = folder / "snapshots" / info.file
    snapshot = snapshots.open_snapshot(path, info, statistics.dimensions)
    info.candidates_checksum = _write_candidates(path, info, snapshot.vectors)
    with engine.begin() as connection:
        metadata.set_value(connection, metadata.CANDIDATES, "1")
        metadata.set_value(connection, "snapshot", info.model_dump_json())
        metadata.bump_generation(connection)
    _keep_current_files(folder, engine, info)
    return info


def drop_candidates(folder: Path, engine: Engine) -> None:
    """Delete the candidate index; later snapshots have none."""
    with engine.begin() as connection:
        connection.execute(delete(schema.meta).where(schema.meta.c.key == metadata.CANDIDATES))
        info = metadata.read_snapshot_info(connection)
        if info is None:
            return
        if info.candidates_checksum:
            info.candidates_checksum = None
            metadata.set_value(connection, "snapshot", info.model_dump_json())
            metadata.bump_generation(connection)
        elif not (folder / "snapshots" / info.candidates).exists():  # else a full disk kept it
            return
    _keep_current_files(folder, engine, info)


def _write_candidates(snapshot: Path, info: SnapshotInfo, matrix: Matrix) -> str:
    index = build_candidate_index(VectorBlocks((matrix,)))
    return write_candidate_index(snapshot.with_name(info.candidates), index)


def _keep_current_files(folder: Path, engine: Engine, info: SnapshotInfo) -> None:
    """Renew the last good copy, and delete the files of earlier snapshots."""
    last_good.store_last_good(folder, engine, (*(f"snapshots/{file}" for file in info.files), schema.SECRET))
    snapshot_folder = folder / "snapshots"
    for path in snapshot_folder.iterdir():
        if path.name not in info.files and path.is_file():
            path.unlink(missing_ok=True)
    sync_folder(snapshot_folder)  # else a power cut could bring them back


_Normalised = tuple[Statistics, faiss.Index, Matrix, NDArray[np.int64]]


def _standardise(
    folder: Path, connection: Connection, profile: Profile, statistics: Statistics | None, count: int
) -> _Normalised:
    """Return statistics, index with its matrix (n, d), and image numbers (n,); normalised in the index's memory."""
    stored_format = vector_format(profile)
    flat, matrix = snapshots.allocate_index(count, stored_format.dimensions)
    _, numbers = load_vectors(connection, 0, stored_format, into=matrix)
    require_agreement(folder, connection, [(matrix, numbers)])
    statistics = statistics or normalisation.fit_statistics(matrix, profile)
    statistics.normalise(matrix, overwrite=True)
    return statistics, flat, matrix, numbers


def _project(
    folder: Path, connection: Connection, profile: Profile, statistics: Statistics | None, count: int
) -> _Normalised:
    """Do the same page by page: raw vectors are many times as long as projected ones."""
    stored_format = vector_format(profile)
    require_agreement(folder, connection, vector_pages(connection, 0, stored_format))
    if statistics is None:
        before = metadata.read_statistics(connection)
        version = 1 + (before.version if isinstance(before, Projection) else 0)
        pages = (raw for raw, _ in vector_pages(connection, 0, stored_format))
        statistics = fit_projection(pages, profile, count, version)
    flat, matrix = snapshots.allocate_index(count, statistics.dimensions)
    numbers = np.empty(count, np.int64)
    start = 0
    for raw, page in vector_pages(connection, 0, stored_format):
        stop = start + len(page)
        matrix[start:stop], numbers[start:stop] = statistics.normalise(raw), page
        start = stop
    return statistics, flat, matrix, numbers


def _drop_index(folder: Path, engine: Engine) -> None:
    """Delete statistics and snapshots: those of an emptied collection would reveal its images."""
    with engine.begin() as connection:
        derived = ("statistics", "snapshot", metadata.AUTO)
        connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(derived)))
        connection.execute(delete(tombstones))
        metadata.bump_generation(connection)
    last_good.drop_last_good(folder)
    map_file.drop_map(folder)
    region_cells.drop_cells(folder)
    for file in (folder / "snapshots").glob("*"):
        file.unlink(missing_ok=True)
    sync_folder(folder / "snapshots")
    sync_folder(folder)
