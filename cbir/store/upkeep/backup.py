"""Back up a collection while other processes read and write it."""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from cbir.errors import CollectionBusy, CollectionDamaged, InvalidInput
from cbir.store.base import collection_folder, metadata
from cbir.store.base.collection_folder import create_private_file, restrict_files
from cbir.store.base.damage import raise_when_full
from cbir.store.base.schema import DATABASE, SECRET, connect
from cbir.store.base.stored_models import copy_models
from cbir.store.collection import Collection
from cbir.store.postgresql.postgresql_database import require_sqlite
from cbir.store.records.originals import copy_originals
from cbir.store.records.patient_key import KEY_CHECK, require_key
from cbir.store.safety import change_log
from cbir.store.upkeep.verify import verify_content
from cbir.system.files import OWNER_FILE, OWNER_FOLDER, rename_durably
from cbir.system.ownership import make_folder

WAIT_SECONDS = 60.0  # for another writer to end


def back_up_collection(collection: Collection, folder: Path, log: bool = False) -> int:
    """Copy database, key, models and originals into a new `folder`, and verify the copy; return the bytes written.

    A manifest has the hash of each file.

    The copy of the database is consistent. The snapshot is left out: `restore_backup` rebuilds it from the database.
    Raises InvalidInput if `folder` exists, StorageFull if the disk is full, and CollectionDamaged if a row or file of
    the copy does not match its checksum; then there is no backup, and an earlier one keeps its log.

    Parameters
    ----------
    collection : Collection
    folder : Path
        New folder.
    log : bool
        Log all changes from now on, so that `backup_log.append_log` can continue this backup.
    """
    require_sqlite(collection._engine, "a backup")
    if folder.exists():
        raise InvalidInput(f"{folder} exists; name a new folder for the backup")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    started = False
    try:
        with raise_when_full(folder):
            if log:
                with collection.writer(), collection._engine.begin() as transaction:
                    started = change_log.ensure_log(transaction)
            _copy_collection(collection, partial)
            _require_sound(partial)
            _write_manifest(partial)
            if log:
                _take_over_log(collection, partial, folder)
            else:
                rename_durably(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if started:  # no backup needs it
            with _writer_when_free(collection), collection._engine.begin() as transaction:
                change_log.stop_log(transaction)
        raise
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _copy_collection(collection: Collection, partial: Path) -> None:
    with collection._engine.connect() as reader:
        key_hash = require_key(reader, collection.folder)  # before anything is copied
    make_folder(partial.parent, 0o777, parents=True, exist_ok=True)
    partial.mkdir(mode=OWNER_FOLDER)  # root's, so that no one else can put anything into it
    copy_originals(collection.folder, partial)  # before any is deleted
    create_private_file(partial / DATABASE)
    with closing(require_sqlite(collection._engine, "a backup").raw_connection()) as connection:
        connection.cursor().execute("VACUUM INTO ?", (str(partial / DATABASE),))
    made_at = datetime.now(UTC).isoformat(timespec="microseconds")
    shutil.copy2(collection.folder / SECRET, partial / SECRET)
    copy_originals(collection.folder, partial)
    copy_models(collection.folder, partial)
    with _transaction(partial) as connection:
        change_log.seal_copy(connection, made_at)
        if key_hash:
            metadata.set_value(connection, KEY_CHECK, key_hash)
    restrict_files(partial)


def _take_over_log(collection: Collection, partial: Path, folder: Path) -> None:
    """Rename the finished backup `partial` to `folder`, and let the log continue it instead of an earlier one."""
    with _writer_when_free(collection), collection._engine.begin() as transaction:
        with _transaction(partial) as copy:
            change_log.take_over(transaction, copy)
        collection_folder.update_sums(partial, written=(DATABASE,))
        rename_durably(
            partial, folder
        )  # before the commit, so that a failure leaves the earlier backup its log


def _write_manifest(folder: Path) -> None:
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    names = (path.as_posix() for path in paths)
    collection_folder.write_sums(folder, [name for name in names if not name.startswith(f"{DATABASE}-")])
    (folder / collection_folder.MANIFEST_NAME).chmod(OWNER_FILE)


@contextmanager
def _transaction(folder: Path) -> Iterator[Connection]:
    """Yield a transaction of the copy of a database in `folder`."""
    engine = connect(folder)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def _writer_when_free(collection: Collection) -> Iterator[None]:
    """Hold the writer lock; waits for the present writer, since the backup is made already."""
    give_up = time.monotonic() + WAIT_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(collection.writer())
                break
            except CollectionBusy:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)
        yield


def _require_sound(folder: Path) -> None:
    """Open a backup and read all of it; raises CollectionDamaged."""
    with Collection(folder) as copy:
        if problems := verify_content(copy):
            raise CollectionDamaged(f"the backup was not kept, since it is damaged: {'; '.join(problems)}")
