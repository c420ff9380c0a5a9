"""Build the data derived from the database: statistics, snapshot, k-NN file and last good copy."""

import math
import secrets
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, func, select

from cbir import settings
from cbir.gallery import knn
from cbir.gallery.code_index import build_codes
from cbir.gallery.vector_blocks import fit_space, plain_space
from cbir.store.base import metadata, normalisation, schema
from cbir.store.base.collection_folder import folder_mode, require_readable
from cbir.store.base.normalisation import Projection, Statistics, fit_projection
from cbir.store.base.profile import Profile, vector_format
from cbir.store.base.schema import vectors
from cbir.store.base.statements import is_postgresql
from cbir.store.postgresql.postgresql_database import Database, is_sqlite
from cbir.store.records.image_rows import last_number
from cbir.store.safety import last_good
from cbir.store.safety.row_damage import require_sound_rows
from cbir.store.snapshot import derived_files, stored_snapshot
from cbir.store.snapshot import snapshot as snapshots
from cbir.store.snapshot.snapshot import SnapshotInfo, write_codes, write_knn
from cbir.store.snapshot.stored_snapshot import (
    ERASED_GENERATION,
    count_deleted,
    fingerprint,
    forget_snapshot,
    forget_tombstones,
    read_snapshot_info,
    read_state,
    snapshot_is_outdated,
    statistics_fingerprint,
    store_snapshot_info,
    store_statistics,
)
from cbir.store.views.collection_view import load_vectors, vector_pages
from cbir.store.views.snapshot_check import require_agreement
from cbir.system.files import sync_folder
from cbir.system.ownership import make_folder

Matrix = NDArray[np.float32]


class AdoptedStatistics(NamedTuple):
    """Statistics that a collection takes over; fitted_here: they were fitted to images of its own."""

    statistics: Statistics
    fitted_here: bool


CODES_FROM = 100_000  # images; fewer are compared about as fast themselves
STALE_SHARE = 0.05  # of the snapshot, added or deleted since: then an indexing run makes a new one


def has_no_snapshot(connection: Connection) -> bool:
    """Return whether a vector index stands for the snapshot, which nothing would read.

    So it is in PostgreSQL, beyond `exact_limit` images, where the settings name a vector index. A folder keeps its
    snapshot: the last good copy goes with it.
    """
    active = settings.load()
    if not is_postgresql(connection) or active.index in ("auto", "flat"):
        return False
    beyond = select(vectors.c.number).limit(1).offset(active.exact_limit)
    return connection.scalar(beyond) is not None


def snapshot_is_stale(folder: Path, database: Database) -> bool:
    """Return True if there is no snapshot, or too much has changed since it was written.

    Where a vector index stands for it: if there is one all the same, or if there are no statistics.
    """
    with database.connect() as connection:
        info = read_snapshot_info(connection, folder)
        if has_no_snapshot(connection):
            return info is not None or metadata.find_value(connection, "statistics") is None
        after = vectors.c.number > (info.last_number if info else 0)
        added = connection.scalar(select(func.count()).select_from(vectors).where(after)) or 0
        deleted = count_deleted(connection, info)
        if info and snapshot_is_outdated(connection, info):
            return True
    return not info or not _intact(folder, info) or added + deleted > STALE_SHARE * info.images


def statistics_are_outgrown(database: Database) -> bool:
    """Return True if the collection has grown so much that its statistics are to be fitted again."""
    with database.connect() as connection:
        statistics = metadata.read_statistics(connection)
        if stored_snapshot.is_shared(connection):
            return False
        count = connection.scalar(select(func.count()).select_from(vectors)) or 0
    return statistics is not None and normalisation.needs_refit(statistics, count)


def statistics_outlive_erasure(database: Database) -> bool:
    """Return whether the statistics need not be fitted again when patients are erased: they are of other images."""
    with database.connect() as connection:
        return stored_snapshot.outlives_erasure(connection)


def _needs_codes(images: int) -> bool:
    """Return whether searches compare codes of the vectors of a snapshot of so many images."""
    active = settings.load()
    most = {"flat": math.inf, "auto": active.exact_limit}.get(active.index, 0)
    return CODES_FROM <= images <= most


def _intact(folder: Path, info: SnapshotInfo) -> bool:
    path = folder / "snapshots" / info.file
    complete = all(path.with_name(name).is_file() for name in info.files)
    complete = complete and (info.codes_checksum is not None or not _needs_codes(info.images))
    return complete and info.neighbours_checksum is not None and path.stat().st_size == info.size


def snapshot_is_due(folder: Path, database: Database) -> bool:
    """Return whether there are statistics, and the snapshot is missing or too old for them or for the images."""
    with database.connect() as connection:
        if metadata.find_value(connection, "statistics") is None:
            return False  # the end of the first indexing run fits them
    return snapshot_is_stale(folder, database)


def rebuild_snapshot(
    folder: Path, database: Database, refit: bool = False, adopted: AdoptedStatistics | None = None
) -> None:
    """Write the snapshot from the database and switch to it; the caller holds the lock of the files.

    Raises CollectionDamaged, before it changes anything, if rows do not match their checksums, or the vectors not the
    present snapshot: damage must not spread to the only sound copies. So it raises AccessDenied for files that it
    would compare with, and may not read.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    database : Database
        Its database.
    refit : bool
        Fit new statistics.
    adopted : AdoptedStatistics, optional
        Statistics to take over in place of the present ones.
    """
    require_readable(
        folder / last_good.NAME
    )  # before anything is written: what differs from it would go unnoticed
    before = _fingerprint(database)
    while not _rebuild(folder, database, refit, adopted):
        refit = refit and _fingerprint(database) == before  # else those of another machine are as new


def _rebuild(folder: Path, database: Database, refit: bool, adopted: AdoptedStatistics | None) -> bool:
    """Write the index; return False if another machine fitted statistics, or erased patients, meanwhile."""
    with database.connect() as connection:
        shared = is_postgresql(connection)
        before = statistics_fingerprint(connection)
        profile = Profile.model_validate_json(metadata.required_value(connection, "profile"))
        statistics = None if refit else metadata.read_statistics(connection)
        statistics = adopted.statistics if adopted else statistics
        generation, state = read_state(connection)
        generation += 0 if shared else 1
        last = last_number(connection)
        count = connection.scalar(select(func.count()).select_from(vectors)) or 0
        require_sound_rows(connection)
        if has_no_snapshot(connection):
            statistics = statistics or _fit_by_pages(connection, profile, count)
            return _store_statistics_alone(folder, database, statistics, (generation, before), refit, adopted)
        if count or statistics:
            normalise = _project if profile.is_projected else _standardise
            statistics, flat, matrix, numbers = normalise(folder, connection, profile, statistics, count)
    if statistics is None:
        # Nothing to fit statistics to, and old ones must not outlive the images.
        return _drop_derived(folder, database)
    snapshot_folder = folder / "snapshots"
    make_folder(snapshot_folder, folder_mode(folder), exist_ok=True)
    name = f"{generation}-{secrets.token_hex(4)}.index" if shared else f"{generation}.index"
    size, checksum = snapshots.write_snapshot(snapshot_folder / name, flat, numbers)
    info = SnapshotInfo(
        file=name, generation=generation, images=count, last_number=last, size=size, checksum=checksum
    )
    parts = normalisation.part_bounds(profile, statistics)
    plain = profile.is_projected  # learned directions need no more whitening
    space = plain_space(matrix.shape[1]) if plain else fit_space(matrix, parts)
    neighbours = knn.find_neighbours(matrix, space, settings.load().device)
    info.neighbours_checksum = write_knn(snapshot_folder / info.neighbours, neighbours)
    if _needs_codes(count):
        info.codes_checksum = write_codes(snapshot_folder / info.codes, build_codes(matrix))
    if shared:
        info.state = state
        store_statistics(snapshot_folder / name, info, statistics)
    with database.begin() as connection:
        if shared and _is_overtaken(connection, generation, before):
            return False
        if not shared or info.statistics_fingerprint != before:
            metadata.set_value(connection, "statistics", statistics.to_json())
            metadata.bump_generation(connection)
        _note_origin(connection, refit, adopted)
        kept = _earlier_files(connection, folder) if shared else ()
        store_snapshot_info(connection, folder, info)
        forget_tombstones(connection)
    _keep_current_files(folder, database, info, kept)
    return True


def _store_statistics_alone(
    folder: Path,
    database: Database,
    statistics: Statistics,
    read: tuple[int, str | None],
    refit: bool,
    adopted: AdoptedStatistics | None,
) -> bool:
    """Store statistics, and delete the snapshot of before; `read`: generation and fingerprint that they are of."""
    with database.begin() as connection:
        if _is_overtaken(connection, *read):
            return False
        if fingerprint(statistics.to_json()) != read[1]:
            metadata.set_value(connection, "statistics", statistics.to_json())
            metadata.bump_generation(connection)
        _note_origin(connection, refit, adopted)
        forget_snapshot(connection, folder)
    for file in (folder / "snapshots").glob("*"):
        file.unlink(missing_ok=True)
    return True


def _note_origin(connection: Connection, refit: bool, adopted: AdoptedStatistics | None) -> None:
    """Note whether the statistics that are being stored came from elsewhere."""
    if adopted:
        stored_snapshot.note_shared(connection, adopted.fitted_here)
    elif refit:
        stored_snapshot.forget_shared(connection)


def _fit_by_pages(connection: Connection, profile: Profile, count: int) -> Statistics:
    """Fit statistics without loading all vectors: to at most `exact_limit` of them, evenly spread."""
    stored_format = vector_format(profile)
    pages = (raw for raw, _ in vector_pages(connection, 0, stored_format))
    if profile.is_projected:
        return fit_projection(pages, profile, count, _next_version(connection))
    step = math.ceil(count / settings.load().exact_limit)
    return normalisation.fit_statistics(np.concatenate([raw[::step].copy() for raw in pages]), profile)


def _next_version(connection: Connection) -> int:
    """Return the version of the next projection."""
    before = metadata.read_statistics(connection)
    return 1 + (before.version if isinstance(before, Projection) else 0)


def _earlier_files(connection: Connection, folder: Path) -> tuple[str, ...]:
    """Return the files of the snapshot that is being replaced, unless they have vectors of erased patients.

    Another machine may be reading them, and a file deleted on shared storage can no longer be read.
    """
    info = read_snapshot_info(connection, folder)
    erased = int(metadata.find_value(connection, ERASED_GENERATION) or 0)
    return info.files if info and info.generation >= erased else ()


def _is_overtaken(connection: Connection, generation: int, before: str | None) -> bool:
    """Return whether the statistics are no longer those before, or patients were erased after the generation."""
    erased = int(metadata.find_value(connection, ERASED_GENERATION) or 0)
    return erased > generation or statistics_fingerprint(connection) != before


def _fingerprint(database: Database) -> str | None:
    with database.connect() as connection:
        return statistics_fingerprint(connection)


def _keep_current_files(
    folder: Path, database: Database, info: SnapshotInfo, kept: tuple[str, ...] = ()
) -> None:
    """Renew the last good copy, which SQLite needs, and delete the files of earlier snapshots that are not `kept`."""
    if is_sqlite(database):
        last_good.store_last_good(folder, database, tuple(f"snapshots/{file}" for file in info.files))
    snapshot_folder = folder / "snapshots"
    for path in snapshot_folder.iterdir():
        if path.name not in (*info.files, *kept) and path.is_file():
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
        version = _next_version(connection)
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


def _drop_derived(folder: Path, database: Database) -> bool:
    """Delete statistics and snapshots: those of an emptied collection would reveal its images.

    Returns False if it is no longer empty.
    """
    with database.begin() as connection:
        if connection.scalar(select(vectors.c.number).limit(1)) is not None:
            return False
        derived = ("statistics", metadata.AUTO, stored_snapshot.TRANSFORM_ORIGIN)
        connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(derived)))
        forget_snapshot(connection, folder)
        forget_tombstones(connection)
        metadata.bump_generation(connection)
    last_good.drop_last_good(folder)
    derived_files.drop_map(folder)
    derived_files.drop_audit_file(folder)
    derived_files.drop_cells(folder)
    if (folder / "snapshots").is_dir():  # not if there never was an image
        for file in (folder / "snapshots").glob("*"):
            file.unlink(missing_ok=True)
        sync_folder(folder / "snapshots")
    sync_folder(folder)
    return True
