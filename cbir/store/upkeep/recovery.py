"""Open a collection, or the last good copy of a damaged one."""

from contextlib import suppress
from pathlib import Path

from sqlalchemy import text

from cbir.errors import CbirError, CollectionBusy, CollectionDamaged
from cbir.store.alias import resolve_alias
from cbir.store.base import metadata
from cbir.store.base.restore_advice import find_copy, restore_advice, time_of_copy
from cbir.store.base.statements import is_postgresql
from cbir.store.collection import Collection
from cbir.store.safety import last_good
from cbir.store.safety.damage import raise_when_damaged
from cbir.store.safety.writer_lock import writer_lock
from cbir.store.snapshot.stored_snapshot import read_snapshot_info


def open_or_fallback(folder: Path) -> Collection:
    """Open the collection in `folder`, or its last good copy if the database is damaged.

    The copy has `fallback_for` set and cannot be written to. Without a usable copy this raises what `Collection`
    raises. Reads the whole database once. `folder` may be an alias.
    """
    folder = resolve_alias(folder)
    try:
        return _open_checked(folder)
    except CollectionDamaged as damage:
        with suppress(OSError, CollectionBusy), writer_lock(folder):  # another may be replacing it
            last_good.finish_replacement(folder)
        copy = find_copy(folder)  # a read-only folder keeps one whose replacement was interrupted
        if copy is None:
            raise
        try:
            collection = _open_checked(copy)
        except CbirError:
            raise damage from None
        collection.fallback_for = (
            f"{damage}. Searching in the last good copy, of {time_of_copy(copy)}: images added since are missing, "
            "and nothing can be changed until the collection is restored"
        )
        return collection


def _open_checked(folder: Path) -> Collection:
    collection = Collection(folder)
    try:
        with raise_when_damaged(folder), collection._engine.connect() as connection:
            report = ["ok"]
            if not is_postgresql(connection):  # which checks every page that it reads
                report = list(connection.scalars(text("PRAGMA quick_check(1)")))
            metadata.read_statistics(connection)
            read_snapshot_info(connection, folder)
        if report != ["ok"]:
            raise CollectionDamaged(
                f"the database of {folder} is damaged ({' '.join(report)[:200]}); {restore_advice(folder)}"
            )
    except CbirError:
        collection.close()
        raise
    return collection
