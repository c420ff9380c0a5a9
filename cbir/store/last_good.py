"""Last good copy of a collection, complete in itself, to search while the collection is damaged.

It is the folder `last-good`, replaced with every snapshot: a packed copy of the database, and links to the snapshot
and the key, which take no space. Later deletions are made in it too; images added later are missing from it until the
next snapshot.
"""

import os
import shutil
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Engine

from cbir.atomic import sync_folder
from cbir.store import change_log, metadata
from cbir.store.permissions import create_private_file, folder_mode
from cbir.store.schema import COPY as NAME
from cbir.store.schema import DATABASE, connect

PARTIAL = f"{NAME}.partial"


def store_last_good(folder: Path, engine: Engine, linked: tuple[str, ...]) -> None:
    """Replace the copy.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    engine : Engine
        Its database.
    linked : tuple of str
        Files that the copy shares with the collection, by their path inside `folder`.
    """
    partial = folder / PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(mode=folder_mode(folder))
        (partial / "snapshots").mkdir(mode=folder_mode(folder))
        create_private_file(partial / DATABASE)
        with closing(engine.raw_connection()) as connection:
            connection.cursor().execute("VACUUM INTO ?", (str(partial / DATABASE),))
        with engine.connect() as reader:
            logged = metadata.find_value(reader, change_log.CHAIN)
        if logged:
            _drop_log(partial)
        with (partial / DATABASE).open("rb+") as file:
            os.fsync(file.fileno())
        for name in linked:
            _link(folder / name, partial / name)
        sync_folder(partial)
        with suppress(FileNotFoundError):
            shutil.rmtree(folder / NAME)
        partial.rename(folder / NAME)
        sync_folder(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _drop_log(folder: Path) -> None:
    """Take the log of changes out of the copy; it continues the backup of the collection itself."""
    engine = connect(folder)
    try:
        with engine.begin() as connection:
            change_log.stop_log(connection)
        with closing(engine.raw_connection()) as raw_connection:
            raw_connection.cursor().execute("VACUUM")
    finally:
        engine.dispose()


def drop_last_good(folder: Path) -> None:
    """Delete the copy, if there is one, and what an interrupted snapshot left of another."""
    for name in (NAME, PARTIAL):
        with suppress(FileNotFoundError):
            shutil.rmtree(folder / name)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # not every file system has links
        shutil.copy2(path, target)
