"""Opening a collection that may be damaged, for those who must answer all the same."""

import time
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from cbir.errors import CbirError, CollectionDamaged
from cbir.store import last_good
from cbir.store.collection import Collection


def open_sound(folder: Path) -> Collection:
    """The collection in `folder`, or its last good copy where its database is damaged.

    The copy says in `stands_in` what it stands in for, and gives out no writer. Raises what `Collection` raises
    where there is no usable copy either. Reads the whole database once.
    """
    try:
        return _checked(folder)
    except CollectionDamaged as damage:
        copy = folder / last_good.NAME
        try:
            opened = _checked(copy)
        except CbirError:
            raise damage from None
        made = time.strftime("%Y-%m-%d %H:%M", time.gmtime(copy.stat().st_mtime))
        opened.stands_in = (
            f"{damage}. Searching in the last good copy, of {made} UTC: what was added since is missing, and "
            "nothing can be changed until the collection is restored (docs/operations.md says how)"
        )
        return opened


def _checked(folder: Path) -> Collection:
    collection = Collection(folder)
    try:
        with collection.engine.connect() as connection:
            said = connection.scalars(text("PRAGMA quick_check(1)")).all()
    except DatabaseError as error:
        said = [str(error.orig)]
    if said != ["ok"]:
        collection.close()
        raise CollectionDamaged(f"the database of {folder} is damaged: {' '.join(said)[:200]}")
    return collection
