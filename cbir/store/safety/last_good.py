"""Last good copy of a collection, complete in itself, to search while the collection is damaged.

It is the folder `last-good`, replaced with every snapshot: a packed copy of the database, links to the snapshot,
which take no space, the key, and a manifest. Later deletions are made in it too; images added later are missing from
it until the next snapshot. Definitions of tables, indexes and triggers are compared with those of the copy before:
no checksum covers them, and a changed one may be valid SQL.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine

from cbir.errors import CbirError, CollectionDamaged
from cbir.store.base import collection_folder, metadata
from cbir.store.base.collection_folder import create_private_file, folder_mode
from cbir.store.base.damage import DAMAGE, restore_advice
from cbir.store.base.schema import COPIES, DATABASE, HISTORY, SECRET, connect, quarantine
from cbir.store.safety import change_log
from cbir.store.safety.change_log import logging_triggers
from cbir.store.safety.database_files import require_sound_log
from cbir.system.files import sync_folder
from cbir.system.ownership import give_folder

Definition = tuple[str, str, str | None]  # type, table, SQL

QUERY = "SELECT name, type, tbl_name, sql FROM sqlite_master"


def differing_definitions(connection: Connection, copy: Connection) -> list[str]:
    """Return the names of definitions that are not those of the copy, in order.

    Only the collection may have what logs changes, what was added since the copy was made, and what a newer version
    of cbir adds.
    """
    ours, theirs = _read(connection), _read(copy)
    logging = logging_triggers()
    differing = {name for name, definition in theirs.items() if ours.get(name) != definition}
    for name in ours.keys() - theirs.keys():
        kind, table, sql = ours[name]
        if name in logging:
            differing |= set() if sql == logging[name] and kind == "trigger" else {name}
        elif table not in {quarantine.name, *(table.name for table in HISTORY)}:
            differing.add(name)
    return sorted(differing)


def _read(connection: Connection) -> dict[str, Definition]:
    rows = connection.exec_driver_sql(QUERY).all()
    return {name: (kind, table, sql) for name, kind, table, sql in rows}


NAME, PREVIOUS = COPIES  # the second until the next one is in its place

PARTIAL = f"{NAME}.partial"


def store_last_good(folder: Path, engine: Engine, linked: tuple[str, ...]) -> None:
    """Write and check another copy, and put it in the place of the present one.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    engine : Engine
        Its database.
    linked : tuple of str
        Files that the copy shares with the collection, by their path inside `folder`.

    Raises
    ------
    CollectionDamaged
        If what was written cannot be read back; the present copy stays.
    """
    finish_replacement(folder)
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
        for name in linked:
            _link(folder / name, partial / name)
        shutil.copy2(folder / SECRET, partial / SECRET)  # no link: it restores the key
        _check_and_sum(partial)
        _require_same_definitions(folder, partial)
        for name in (DATABASE, SECRET):
            with (partial / name).open("rb+") as file:
                os.fsync(file.fileno())
        give_folder(partial)
        if (folder / NAME).exists():
            (folder / NAME).rename(folder / PREVIOUS)
        partial.rename(folder / NAME)
        sync_folder(folder)
        shutil.rmtree(folder / PREVIOUS, ignore_errors=True)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def finish_replacement(folder: Path) -> None:
    """Finish the replacement of a copy that was interrupted: there is one copy then, if there was one."""
    if not (folder / PREVIOUS).exists():
        return
    if (folder / NAME).exists():
        shutil.rmtree(folder / PREVIOUS)
    else:
        (folder / PREVIOUS).rename(folder / NAME)


def before_change(folder: Path) -> None:
    """Take the database of the copy out of its manifest, before it is changed."""
    collection_folder.update_sums(folder / NAME, leave_out=(DATABASE,))


def _check_and_sum(folder: Path) -> None:
    """Write the manifest, while SQLite checks the database: both read all of it, without Python's lock."""
    engine = connect(folder)
    try:
        with ThreadPoolExecutor(1) as pool, engine.connect() as connection:  # which may change the header
            summing = pool.submit(collection_folder.write_sums, folder, (DATABASE, SECRET))
            (report,) = connection.exec_driver_sql("PRAGMA quick_check(1)").one()
            summing.result()
    finally:
        engine.dispose()
    if report != "ok":
        raise CollectionDamaged(
            f"the new last good copy of {folder.parent} cannot be read back ({report}) and was not kept: "
            "check the disk"
        )


def _require_same_definitions(folder: Path, partial: Path) -> None:
    """Raise CollectionDamaged if tables or triggers are not those of the present copy, unless that one is damaged."""
    copy = folder / NAME
    if not (copy / DATABASE).is_file() or not (copy / collection_folder.MANIFEST_NAME).is_file():
        return
    ours, theirs = connect(partial), connect(copy)
    try:
        require_sound_log(copy)
        with ours.connect() as new, theirs.connect() as present:
            names = differing_definitions(new, present)
        if not names or collection_folder.changed_files(copy, (DATABASE,)):
            return
    except (*DAMAGE, CbirError):  # the present one cannot be read
        return
    finally:
        ours.dispose()
        theirs.dispose()
    raise CollectionDamaged(
        f"the database of {folder} defines {', '.join(names)} in another way than its last good copy, which was "
        f"kept; {restore_advice(folder)}"
    )


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
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / PARTIAL)
    with suppress(FileNotFoundError):
        (folder / NAME).rename(folder / PARTIAL)  # so that a power cut leaves no part of it under its name
        sync_folder(folder)
    for name in (PARTIAL, PREVIOUS):
        with suppress(FileNotFoundError):
            shutil.rmtree(folder / name)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # not every file system has links
        shutil.copy2(path, target)
