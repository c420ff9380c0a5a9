"""Back up a collection while other processes read and write it."""

import shutil
from contextlib import closing, suppress
from pathlib import Path

from cbir.atomic import rename_durably
from cbir.errors import CollectionDamaged, InvalidInput
from cbir.models import embedding_card
from cbir.store import change_log, embedding_model, originals, severity_model
from cbir.store.collection import Collection
from cbir.store.disk_full import raise_when_full
from cbir.store.permissions import create_private_file, restrict_files
from cbir.store.schema import DATABASE, SECRET, connect
from cbir.store.verify import verify_content


def back_up_collection(collection: Collection, folder: Path, log: bool = False) -> int:
    """Copy database, key, models and originals into a new `folder`, and verify the copy; return the bytes written.

    The copy of the database is consistent. The snapshot is left out: `restore_backup` rebuilds it from the database.
    Raises InvalidInput if `folder` exists, StorageFull if the disk is full, and CollectionDamaged if a row or file of
    the copy does not match its checksum; then there is no backup.

    Parameters
    ----------
    collection : Collection
    folder : Path
        New folder.
    log : bool
        Log all changes from now on, so that `backup_log.append_log` can continue this backup.
    """
    if folder.exists():
        raise InvalidInput(f"{folder} exists; name a new folder for the backup")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with raise_when_full(folder):
            if log:
                with collection.writer(), collection._engine.begin() as transaction:
                    change_log.start_log(transaction)
            partial.mkdir(parents=True, mode=0o700)
            create_private_file(partial / DATABASE)
            with closing(collection._engine.raw_connection()) as connection:
                connection.cursor().execute("VACUUM INTO ?", (str(partial / DATABASE),))
            shutil.copy2(collection.folder / SECRET, partial / SECRET)
            _copy_files(collection.folder / originals.FOLDER, partial / originals.FOLDER)
            if embedding_card.has_embedding(collection.folder / embedding_model.FOLDER):
                embedding_model.copy_model(
                    collection.folder / embedding_model.FOLDER, partial / embedding_model.FOLDER
                )
            severity_model.copy_severity_model(collection.folder, partial)
            _seal_database(partial)
            restrict_files(partial)
            _require_sound(partial)
            rename_durably(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _seal_database(folder: Path) -> None:
    """Take the log out of a copy of the database; a database without one has no room to give back."""
    engine = connect(folder)
    try:
        with engine.begin() as connection:
            change_log.seal_copy(connection)
    finally:
        engine.dispose()


def _require_sound(folder: Path) -> None:
    """Open a backup and read all of it; raises CollectionDamaged."""
    with Collection(folder) as copy:
        if problems := verify_content(copy):
            raise CollectionDamaged(f"the backup was not kept, since it is damaged: {'; '.join(problems)}")


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files of a folder; those deleted meanwhile are not needed any more."""
    if not source.is_dir():
        return
    target.mkdir(mode=0o700)
    for path in source.iterdir():
        with suppress(FileNotFoundError):
            shutil.copy2(path, target / path.name)
