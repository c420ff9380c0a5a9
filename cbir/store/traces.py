"""Whether anything of a patient is left in the files of a collection: what proves that one was erased."""

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import Connection, select

from cbir.store import facts, last_good, originals, schema
from cbir.store.collection import Collection
from cbir.store.schema import images

COMPACT = "`cbir collection compact` removes it"


def traces(collection: Collection, keys: Sequence[str]) -> list[str]:
    """What is left, in words that name no patient; empty where nothing is.

    keys: patient keys. Told of is every file of the collection's folder that has one of them anywhere in its bytes,
    the unused pages of databases included, and every file that may show an image that the collection has no more: old
    snapshots, originals, and a last good copy that knows more than the collection. While the writer's lock is held.
    """
    folder = collection.folder
    with collection.engine.connect() as connection:
        there = set(connection.scalars(select(images.c.image_id)))
        left = [*_old_snapshots(folder, connection), *_originals(folder, connection)]
    left += _copied(folder / last_good.NAME, there)
    wanted = [key.encode() for key in keys if key]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if any(_holds(path, key) for key in wanted):
            left.append(
                f"{path.relative_to(folder)} still has the patient's key in it; erase the patient again"
            )
    return left


def _holds(path: Path, wanted: bytes) -> bool:
    if path.stat().st_size == 0:  # cannot be mapped
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return mapped.find(wanted) >= 0


def _old_snapshots(folder: Path, connection: Connection) -> Iterator[str]:
    info = facts.snapshot(connection)
    current = {info.file, info.neighbours} if info else set()
    for path in sorted((folder / "snapshots").iterdir()):
        if path.name not in current:
            yield f"snapshots/{path.name} is of an earlier state; {COMPACT}"


def _originals(folder: Path, connection: Connection) -> Iterator[str]:
    place = folder / originals.FOLDER
    if not place.is_dir():
        return
    sent = images.c.source.startswith(originals.UPLOAD)
    needed = set(connection.scalars(select(images.c.source).where(sent)))
    count = sum(originals.UPLOAD + path.name not in needed for path in place.iterdir())
    if count:
        yield f"{count} files in {originals.FOLDER} are of no image that is there; {COMPACT}"


def _copied(copy: Path, there: set[str]) -> Iterator[str]:
    if not (copy / schema.DATABASE).is_file():
        return
    engine = schema.connect(copy)
    try:
        with engine.connect() as connection:
            copied = set(connection.scalars(select(images.c.image_id)))
    finally:
        engine.dispose()
    if copied - there:
        yield f"{copy.name} shows {len(copied - there)} images that are not there any more; {COMPACT}"
