"""Original files of uploaded images, named by a hash of their bytes, never by the client.

The table `originals` notes each of them, in the transaction of its image, so that a lost one is noticed. While
changes are logged, those of deleted images stay until they are in the backup too.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, select

from cbir.store.base.collection_folder import file_mode, folder_mode
from cbir.store.base.schema import held_sources, images, original_files
from cbir.store.base.statements import Statement, insert_missing, with_checksum
from cbir.store.postgresql.postgresql_database import Database
from cbir.store.safety.change_log import is_logged
from cbir.system.files import SUFFIX, copy_file, sync_folder, write_bytes
from cbir.system.ownership import make_folder

FOLDER = "originals"
UPLOAD = "upload:"  # prefix of the sources of uploaded images

USED = Statement("SELECT DISTINCT source FROM images WHERE source IN ?")
FORGET = Statement("DELETE FROM originals WHERE name IN ?")


def source_of(data: bytes) -> str:
    """Return the source of the images in an uploaded file."""
    return UPLOAD + hashlib.blake2b(data, digest_size=16).hexdigest()


def original_path(folder: Path, source: str) -> Path | None:
    """Return the path for the original of a source in the collection `folder`; None if it is no upload."""
    return folder / FOLDER / source.removeprefix(UPLOAD) if source.startswith(UPLOAD) else None


def is_intact(path: Path) -> bool:
    """Return whether an original has the content that it is named by."""
    return source_of(path.read_bytes()) == UPLOAD + path.name


def store_original(folder: Path, data: bytes) -> str:
    """Store an uploaded file in the collection `folder`, unless it is there; return its source."""
    source = source_of(data)
    target = original_path(folder, source)
    assert target is not None
    try:
        target.open(
            "rb"
        ).close()  # on shared storage, `exists` may not know yet that another machine deleted it
    except FileNotFoundError:
        make_folder(target.parent, folder_mode(folder), exist_ok=True)
        write_bytes(target, data, permissions=file_mode(folder))
    return source


def note_originals(connection: Connection, sources: Iterable[str]) -> None:
    """Note that the originals of these sources are stored."""
    rows = [with_checksum(original_files, {"name": source.removeprefix(UPLOAD)}) for source in sources]
    if rows:
        insert_missing(connection, original_files, rows)


def note_files(connection: Connection, folder: Path) -> None:
    """Note the originals that are in the collection `folder`."""
    if (folder / FOLDER).is_dir():
        note_originals(connection, sorted(path.name for path in (folder / FOLDER).glob("[0-9a-f]" * 32)))


def missing_originals(connection: Connection, folder: Path) -> list[str]:
    """Return the ids of the images in the collection `folder` whose original was stored and is gone."""
    noted = UPLOAD + original_files.c.name
    query = select(images.c.image_id, images.c.source).join(original_files, images.c.source == noted)
    existing = {path.name for path in (folder / FOLDER).glob("*")}
    rows = connection.execute(query.order_by(images.c.number))
    return [row.image_id for row in rows if row.source.removeprefix(UPLOAD) not in existing]


def forget_missing(connection: Connection, folder: Path) -> int:
    """Delete the notes of originals that are gone, and return the number of their images."""
    count = len(missing_originals(connection, folder))
    there = json.dumps([path.name for path in (folder / FOLDER).glob("*")])
    connection.exec_driver_sql(
        "DELETE FROM originals WHERE name NOT IN (SELECT value FROM json_each(?))", (there,)
    )
    return count


def forget_sources(connection: Connection, sources: Iterable[str]) -> set[str]:
    """Delete the notes of those uploaded `sources` that no image has any more; return those to erase now.

    None while changes are logged: the backup has to get them first.
    """
    uploads = {source for source in sources if source.startswith(UPLOAD)}
    unused = uploads.difference(
        USED.run(connection, list(uploads)).scalars(), held_sources(connection, uploads)
    )
    FORGET.run(connection, [source.removeprefix(UPLOAD) for source in unused])
    return set() if unused and is_logged(connection) else unused


def forget_unused(connection: Connection) -> None:
    """Delete the notes of all originals that no image needs."""
    connection.exec_driver_sql(
        f"DELETE FROM originals WHERE NOT EXISTS (SELECT 1 FROM images WHERE source = '{UPLOAD}' || name)"
    )
    note_originals(connection, (source for source in held_sources(connection) if source.startswith(UPLOAD)))


def erase_originals(folder: Path, sources: Iterable[str]) -> None:
    """Delete the originals of these sources from the collection `folder`."""
    for source in sources:
        target = original_path(folder, source)
        if target:
            target.unlink(missing_ok=True)


def erase_unused(database: Database, folder: Path, sources: Collection[str]) -> None:
    """Delete the originals in `folder` of those `sources` that no image in `database` has.

    Other processes may be adding images with the same files: in PostgreSQL they wait for this transaction.
    """
    if sources:
        with database.begin() as connection:
            used = set(USED.run(connection, list(sources)).scalars()) | held_sources(connection, sources)
            erase_originals(folder, set(sources) - used)


def sweep_originals(connection: Connection, folder: Path) -> None:
    """Delete every original in the collection `folder` that no image needs, as crashes leave some.

    No other process may be adding images.
    """
    erase_originals(folder, unneeded_originals(connection, folder))
    if (folder / FOLDER).is_dir():
        sync_folder(folder / FOLDER)  # else a power cut could bring them back


def sweep_unused(database: Database, folder: Path) -> None:
    """Do the same while others may be adding images, whom it keeps waiting for a moment only."""
    with database.connect() as connection:
        sources = unneeded_originals(connection, folder)
    erase_unused(database, folder, sources)
    if (folder / FOLDER).is_dir():
        sync_folder(folder / FOLDER)


def unneeded_originals(connection: Connection, folder: Path) -> set[str]:
    """Return the sources of the originals in the collection `folder` that no image needs."""
    if not (folder / FOLDER).is_dir():
        return set()
    uploaded = images.c.source.startswith(UPLOAD)
    needed = set(connection.scalars(select(images.c.source).where(uploaded)))
    return {UPLOAD + file.name for file in (folder / FOLDER).iterdir()} - needed - held_sources(connection)


def copy_originals(folder: Path, target: Path) -> None:
    """Copy those originals of the collection in `folder` that the folder `target` does not have yet."""
    if not (folder / FOLDER).is_dir():
        return
    make_folder(target / FOLDER, exist_ok=True)
    for path in (folder / FOLDER).iterdir():
        copy = target / FOLDER / path.name
        if path.suffix != SUFFIX and not copy.exists():
            with suppress(FileNotFoundError):  # deleted meanwhile
                copy_file(path, copy, durable=False)
    if hasattr(os, "sync"):  # once, since there may be any number of files
        os.sync()
