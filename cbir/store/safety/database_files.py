"""Damage of a SQLite database's files: a lost database, and a write-ahead log from which changes would be dropped.

A collection whose database is gone is distinguished from a folder that never had one, which may get a new
collection.

The log is a header and frames, each with a page of the database. Each frame repeats the two salts of the header and
has a sum of all before it, so frames of an earlier use of the file, with other salts, do not count
(https://www.sqlite.org/fileformat2.html#the_write_ahead_log).

Only committed frames are a loss. A commit is on the disk before a later frame is written, so a commit frame that
another frame continues proves that all frames before it were there. The last transaction may have been cut off by a
power failure, sector by sector; damage there differs from that by its extent: one 32-bit word of a frame.
"""

import os
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import CollectionDamaged, NotFound
from cbir.store.base import schema
from cbir.store.base.collection_folder import open_file
from cbir.store.base.damage import is_damage, restore_advice
from cbir.store.base.schema import COPIES, COPY, DATABASE, SECRET

Words = NDArray[np.uint32]

HEADER, FRAME_HEADER = 32, 24  # bytes

MAGIC = 0x377F0682  # its last bit is set if the words that are summed are big-endian

PAGES = frozenset(1 << power for power in range(9, 17))  # sizes that SQLite has

BLOCK_BYTES = 1 << 24

REMEDY = "`cbir collection verify --repair` keeps what is before it"


class LogDamage(NamedTuple):
    """Number of the first damaged frame, 0 for the header, and the number of frames in the file."""

    frame: int
    frames: int


class Frames(NamedTuple):
    """Frames of a log, in rows: salts and sums (n, 2), pages of the database after a commit, else 0 (n,).

    links: sum (n, 2) of a frame that continues the one before it.
    """

    salts: Words
    sums: Words
    commits: Words
    links: Words


def log_of(database: Path) -> Path:
    """Return the write-ahead log of the SQLite file `database`."""
    return database.with_name(f"{database.name}-wal")


def require_sound_log(folder: Path) -> None:
    """Raise CollectionDamaged if the log of the collection in `folder` is damaged, before SQLite opens it."""
    if problem := log_problem(folder / DATABASE):
        raise CollectionDamaged(f"{problem}; {restore_advice(folder)}; or {REMEDY}")


def log_problem(database: Path) -> str | None:
    """Return what is wrong with the write-ahead log of a SQLite file; None if nothing is, or there is no log."""
    damage = find_log_damage(log_of(database))
    if damage is None:
        return None
    part = f"frame {damage.frame} of {damage.frames}" if damage.frame else "its header"
    return f"the write-ahead log {log_of(database)} is damaged at {part}: changes from there on are lost"


def find_log_damage(path: Path) -> LogDamage | None:
    """Return the damage of the log in `path` that loses committed changes; None without one, or without the file.

    Others may write to it meanwhile, so only what is found twice counts.
    """
    first = _find_once(path)
    return first if first and _find_once(path) == first else None


def _find_once(path: Path) -> LogDamage | None:
    try:
        with path.open("rb") as file:
            while True:
                header = file.read(HEADER)
                if len(header) < HEADER:
                    return None
                damage = _find_in(header, file.read)
                file.seek(0)
                if file.read(HEADER) == header:  # else the log has begun again meanwhile
                    return damage
                file.seek(0)
    except FileNotFoundError:
        return None


def _find_in(header: bytes, read: Callable[[int], bytes]) -> LogDamage | None:
    """Find damage of a log, whose frames `read` returns in blocks of bytes."""
    fields = np.frombuffer(header, ">u4").astype(np.uint32)
    order, page, sums, is_sound = _checked_header(header, fields)
    size = FRAME_HEADER + page
    blocks = []
    while content := read(max(1, BLOCK_BYTES // size) * size):
        usable = len(content) - len(content) % size
        if usable:
            blocks.append(_read_frames(content[:usable], page, order))
    if not blocks:
        return None
    salts, stored, commits, contributions = map(np.concatenate, zip(*blocks, strict=True))
    before = np.vstack([sums, stored[:-1]])
    frames = Frames(salts, stored, commits, contributions + before @ _carry(page))
    if not is_sound:
        is_ours = bool((frames.salts[0] == fields[4:6]).any()) or bool((frames.links[0] == stored[0]).all())
        return LogDamage(0, len(stored)) if is_ours else None
    return _find_in_frames(frames, fields[4:6], page)


def _checked_header(header: bytes, fields: Words) -> tuple[str, int, Words, bool]:
    """Return the order of bytes in the log, the size of its pages, the sums of its header, and whether they match."""
    orders = ("<u4", ">u4") if fields[0] % 2 == 0 else (">u4", "<u4")
    sums = [_sum_of(np.frombuffer(header[:24], order).astype(np.uint32)) for order in orders]
    page = int(fields[2]) if int(fields[2]) in PAGES else 4096
    stored = fields[6:8]
    is_sound = bool((sums[0] == stored).all()) and int(fields[0]) | 1 == MAGIC | 1
    return orders[0], page, stored, is_sound


def _sum_of(words: Words) -> Words:
    return np.asarray(words @ _coefficients(len(words)), np.uint32)


def _read_frames(content: bytes, page: int, order: str) -> tuple[Words, Words, Words, Words]:
    """Return salts, sums and commits of frames, and the part of their sums that does not depend on those before."""
    count = len(content) // (FRAME_HEADER + page)
    fields = np.frombuffer(content, ">u4").reshape(count, -1)[:, :6].astype(np.uint32)
    words = np.frombuffer(content, order).reshape(count, -1)
    weights = _coefficients(page // 4 + 2)
    contributions = words[:, :2].astype(np.uint32) @ weights[:2]
    contributions += words[:, 6:].astype(np.uint32, copy=False) @ weights[2:]
    return fields[:, 2:4], fields[:, 4:6], fields[:, 1], contributions


@lru_cache(maxsize=8)
def _coefficients(count: int) -> Words:
    """Return what each of `count` words adds to the two sums (count, 2), modulo 2**32.

    Two words a and b turn the sums s and t into s + t + a and s + 2t + a + b.
    """
    rows, first, second = [], (1, 1), (0, 1)  # what a and b add
    for _ in range(count // 2):
        rows += [second, first]
        first, second = _step(first), _step(second)
    return np.array(rows[::-1], np.uint64).astype(np.uint32)


@lru_cache(maxsize=8)
def _carry(page: int) -> Words:
    """Return the matrix (2, 2) that the sums before a frame are multiplied by from the right."""
    rows = [(1, 0), (0, 1)]
    for _ in range(page // 8 + 1):
        rows = [_step(row) for row in rows]
    return np.array(rows, np.uint64).astype(np.uint32)


def _step(sums: tuple[int, int]) -> tuple[int, int]:
    s, t = sums
    return (s + t) % 2**32, (s + 2 * t) % 2**32


def _find_in_frames(frames: Frames, salts: Words, page: int) -> LogDamage | None:
    salted = (frames.salts == salts).all(1)
    linked = (frames.links == frames.sums).all(1)
    sound = salted & linked
    if sound.all():
        return None
    bad = int(sound.argmin())
    committed = salted & (frames.commits > 0)
    is_continued = bool((committed[bad:-1] & sound[bad + 1 :]).any())
    if is_continued or _is_damaged_commit(frames, bad, salted, linked, page):
        return LogDamage(bad + 1, len(sound))
    return None


def _is_damaged_commit(
    frames: Frames, bad: int, salted: NDArray[np.bool_], linked: NDArray[np.bool_], page: int
) -> bool:
    """Return whether the frame `bad` differs in one word from one that was committed."""
    committed = frames.commits[bad] > 0 or bool((salted & (frames.commits > 0))[bad + 1 :].any())
    if linked[bad]:  # the salts are not part of the sum
        return committed
    if not salted[bad]:  # of an earlier use of the file
        return False
    first, second = frames.sums[bad] - frames.links[bad]
    if first == 0 or second == 0:  # the sum itself
        return committed
    weights = _coefficients(page // 4 + 2)
    # One word that is off by d changes the sums by d times its two weights, one of which is odd.
    fits = weights[:, 0] * second == weights[:, 1] * first
    return bool(fits[1]) or (committed and bool(fits.any()))  # the second word marks a commit


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

    Changes nothing, for any content of the file.
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
