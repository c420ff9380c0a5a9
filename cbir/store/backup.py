"""A copy of a collection to put away, made while others read and write it."""

import os
import shutil
from contextlib import closing, suppress
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.models import embedding_card
from cbir.store import learnt, model, originals
from cbir.store.collection import Collection
from cbir.store.room import told_when_full
from cbir.store.schema import DATABASE, SECRET


def backup(collection: Collection, folder: Path) -> int:
    """Copy database, key, models and originals into `folder`, which must not exist; the bytes written.

    The database is that of one moment. The snapshot is left out: `cbir collection compact` makes it from the
    database. Raises InvalidInput where `folder` exists, StorageFull where it does not fit.
    """
    if folder.exists():
        raise InvalidInput(f"{folder} exists; name a new folder for the backup")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with told_when_full(folder):
            partial.mkdir(parents=True, mode=0o700)
            with closing(collection.engine.raw_connection()) as connection:
                connection.cursor().execute("VACUUM INTO ?", (str(partial / DATABASE),))
            shutil.copy2(collection.folder / SECRET, partial / SECRET)
            _copy_files(collection.folder / originals.FOLDER, partial / originals.FOLDER)
            if embedding_card.has_embedding(collection.folder / model.FOLDER):
                model.copy(collection.folder / model.FOLDER, partial / model.FOLDER)
            learnt.copy(collection.folder, partial)
            os.sync()
            partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files of a folder; those that are deleted meanwhile are not needed any more."""
    if not source.is_dir():
        return
    target.mkdir(mode=0o700)
    for path in source.iterdir():
        with suppress(FileNotFoundError):
            shutil.copy2(path, target / path.name)
