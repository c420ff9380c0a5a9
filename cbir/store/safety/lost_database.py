"""Tell a collection whose database is gone from a folder that never had one: the second may get a new collection."""

import os
from contextlib import closing
from pathlib import Path

from cbir.errors import CollectionDamaged, NotFound
from cbir.store.base import schema
from cbir.store.base.read_only_file import open_file
from cbir.store.base.restore_advice import restore_advice
from cbir.store.base.schema import COPIES, COPY, DATABASE, SECRET
from cbir.store.safety.damage import is_damage
from cbir.store.safety.write_ahead_log import log_problem, require_sound_log

UNFINISHED = "creation.unfinished"  # there from the start of a creation to its end
SMALLEST = 512  # bytes of a SQLite database; it takes a shorter file for an empty one
LOGS = (f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal")
# In the folder of every collection, or of some; the lock and what is not ours say nothing.
FILES = (
    DATABASE,
    *LOGS,
    SECRET,
    *COPIES,
    f"{COPY}.partial",
    "originals",
    "snapshots",
    "model",
    "severity",
    "vector_index",
    "regions",
    "map.npz",
    "audit.json",
)
OF_A_NEW_ONE = {
    DATABASE,
    *LOGS,
    SECRET,
    "snapshots",
    "model",
}  # an interrupted creation leaves these, without content


def has_database(folder: Path) -> bool:
    """Return whether `folder` has the database of a collection, sound or damaged; an empty file is none.

    Changes nothing, whatever the file is.
    """
    path = folder / DATABASE
    if not _has_content(path):
        return False
    if log_problem(path):  # opening and closing the database would delete the log
        return True
    return _has_tables(path)


def _has_content(path: Path) -> bool:
    """Return False where SQLite would create the database, and delete its log."""
    return path.is_file() and path.stat().st_size >= SMALLEST


def _has_tables(path: Path) -> bool:
    try:
        with closing(open_file(path)) as connection:
            connection.execute("PRAGMA busy_timeout=10000")
            query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
            return connection.execute(query, (schema.meta.name,)).fetchone() is not None
    except Exception as error:
        if not is_damage(error):
            raise
        return True  # damaged is not absent


def describe_loss(folder: Path) -> str | None:
    """Describe what is left in `folder` of a collection without a database, and what restores it.

    None if nothing is, or only an interrupted creation.
    """
    remains = [name for name in FILES if os.path.lexists(folder / name)]
    if not remains or ((folder / UNFINISHED).exists() and not _has_images(folder, remains)):
        return None
    if has_database(folder):  # another process may have finished its creation meanwhile
        return None
    path = folder / DATABASE
    state = _describe_state(path)
    problem = (
        f"the database {DATABASE} of {folder} is {state}, but a collection was there ({', '.join(remains)}): nothing "
        f"was created or deleted; {restore_advice(folder)}"
    )
    if not _has_images(folder, remains):
        problem += ". If no image was ever added to it, delete the folder"
    return problem


def _describe_state(path: Path) -> str:
    if not path.exists():
        return "missing"
    if not path.is_file():
        return "no file"
    size = path.stat().st_size
    return "empty" if not size else "cut" if size < SMALLEST else "without tables of a collection"


def require_database(folder: Path, name: object) -> None:
    """Check that there is a database to open.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    name : object
        What the user calls it.

    Raises
    ------
    NotFound
        If no collection was ever in the folder.
    CollectionDamaged
        If its database is missing or empty, or its write-ahead log damaged.
    """
    if _has_content(folder / DATABASE):
        require_sound_log(folder)
        if _has_tables(folder / DATABASE):
            return
    if loss := describe_loss(folder):
        raise CollectionDamaged(loss)
    if has_database(folder):
        return
    raise NotFound(f"there is no collection in {name}; `cbir index SOURCE --collection {name}` creates one")


def _has_images(folder: Path, remains: list[str]) -> bool:
    """Return whether the files show that there were images: a new collection has none of these."""
    if set(remains) - OF_A_NEW_ONE:
        return True
    return (folder / "snapshots").is_dir() and any((folder / "snapshots").iterdir())
