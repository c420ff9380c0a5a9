"""Compaction: free the space of deleted images and of old entries of the history."""

from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine, select

from cbir.store import change_history, index_build, originals
from cbir.store.schema import images


def compact_files(
    folder: Path,
    engine: Engine,
    refit: bool = False,
    history_days: int | None = None,
    deleted_days: int | None = None,
) -> bool:
    """Write a snapshot without deleted images and free unused space.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    engine : Engine
        Its database.
    refit : bool
        Fit new statistics.
    history_days : int, optional
        Days of the history to keep; all by default.
    deleted_days : int, optional
        Days after which deleted images may be added again; never by default.

    Returns
    -------
    bool
        False if a reader still holds old pages of the database, so that not all was written back.

    Raises
    ------
    CollectionDamaged
        If rows do not match their checksums; the snapshot and the last good copy stay as they are.
    """
    with engine.begin() as connection:
        if history_days is not None:
            change_history.prune_changes(connection, history_days)
        if deleted_days is not None:
            change_history.prune_deletions(connection, deleted_days)
    index_build.rebuild_index(folder, engine, refit)
    with engine.connect() as connection:
        uploaded = images.c.source.startswith(originals.UPLOAD)
        needed = set(connection.scalars(select(images.c.source).where(uploaded)))
    originals.sweep_originals(folder, needed)
    with closing(engine.raw_connection()) as raw_connection:  # neither may run inside a transaction
        raw_connection.cursor().execute("VACUUM")
        (busy, *_) = raw_connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
