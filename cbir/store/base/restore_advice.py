"""Commands that restore a collection whose database is damaged or gone."""

import os
import shlex
import time
from itertools import count
from pathlib import Path

from cbir.store.base.schema import COPIES, DATABASE

REPAIR = "`cbir collection verify --repair` restores what a sound copy holds"


def restore_advice(folder: Path) -> str:
    """Return the command that restores the collection in `folder`: from its last good copy, or from a backup."""
    if folder.name in COPIES:
        return "restore a backup"
    if folder.name in ("", ".."):  # the working folder, or one above it
        folder = Path(os.path.abspath(folder))
    aside = _free_name(folder)
    move = f"mv {shlex.quote(str(folder))} {shlex.quote(str(aside))}"
    copy = find_copy(folder)
    if copy is None:
        return f"restore a backup: `{move} && cbir collection restore BACKUP {shlex.quote(str(folder))}`"
    source = shlex.quote(str(aside / copy.name))
    return (
        f"restore a newer backup, or the last good copy, of {time_of_copy(copy)}: "
        f"`{move} && cbir collection restore {source} {shlex.quote(str(folder))}`"
    )


def find_copy(folder: Path) -> Path | None:
    """Return the last good copy of the collection in `folder`, also after a replacement that was interrupted."""
    paths = (folder / name for name in COPIES)
    return next((path for path in paths if _has_content(path / DATABASE)), None)


def time_of_copy(copy: Path) -> str:
    """Return when a last good copy was made, by its snapshot, which never changes."""
    paths = [path for path in (copy / "snapshots").glob("*") if path.is_file()] or [copy]
    newest = max(path.stat().st_mtime for path in paths)
    return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(newest))} UTC"


def _free_name(folder: Path) -> Path:
    """Return a name beside `folder` that nothing has: `mv` would move into a folder of that name."""
    names = (f"{folder.name}-damaged{number if number > 1 else ''}" for number in count(1))
    return next(path for path in map(folder.with_name, names) if not os.path.lexists(path))


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
