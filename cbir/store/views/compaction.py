"""Compaction: free the space of deleted images and of old entries of the history."""

from contextlib import closing
from pathlib import Path

from sqlalchemy import text

from cbir.store.postgresql import postgresql_schema
from cbir.store.records import change_history, originals
from cbir.store.records.database import Database, connect_once, is_sqlite
from cbir.store.safety import change_log
from cbir.store.views import index_build


def compact_files(
    folder: Path,
    database: Database,
    refit: bool = False,
    history_days: int | None = None,
    deleted_days: int | None = None,
) -> bool:
    """Write a snapshot without deleted images and free unused space.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    database : Database
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
    with database.begin() as connection:
        originals.forget_unused(connection)
        if history_days is not None:
            change_history.prune_changes(connection, history_days)
        if deleted_days is not None:
            change_history.prune_deletions(connection, deleted_days)
    index_build.rebuild_index(folder, database, refit)
    with database.connect() as connection:
        logged = change_log.is_logged(connection)
    if not logged:  # else the backup has to get them first
        originals.sweep_unused(database, folder)
    if not is_sqlite(database):
        with connect_once(database) as connection:
            connection.execute(text(f"VACUUM {', '.join(postgresql_schema.tables.tables)}"))
        return True
    with closing(database.raw_connection()) as raw_connection:  # neither may run inside a transaction
        raw_connection.cursor().execute("VACUUM")
        (busy, *_) = raw_connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
