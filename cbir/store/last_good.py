"""A second copy of a collection, complete in itself, to search in while the first is damaged.

It lies in the folder `last-good` and is made with every snapshot: the database, copied and packed, and links to the
snapshot and the key, which take no room. What is deleted later is deleted in it too; what is added later is
missing from it until the next snapshot.
"""

import os
import shutil
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine

from cbir.atomic import sync_folder
from cbir.store.schema import DATABASE

NAME = "last-good"


def keep(folder: Path, engine: Engine, linked: tuple[str, ...]) -> None:
    """Make the copy anew. linked: files, by their path inside `folder`, that it shares with the collection."""
    partial = folder / f"{NAME}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        (partial / "snapshots").mkdir(parents=True)
        with closing(engine.raw_connection()) as connection:
            connection.cursor().execute("VACUUM INTO ?", (str(partial / DATABASE),))
        with (partial / DATABASE).open("rb") as file:
            os.fsync(file.fileno())
        for name in linked:
            _link(folder / name, partial / name)
        sync_folder(partial)
        drop(folder)
        partial.rename(folder / NAME)
        sync_folder(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def drop(folder: Path) -> None:
    """Remove the copy, if there is one."""
    try:
        shutil.rmtree(folder / NAME)
    except FileNotFoundError:
        return


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # not every file system has links
        shutil.copy2(path, target)
