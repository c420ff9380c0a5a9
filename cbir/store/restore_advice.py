"""Commands that restore a collection whose database is damaged or gone."""

import shlex
import time
from pathlib import Path

from cbir.store.schema import COPY, DATABASE


def restore_advice(folder: Path) -> str:
    """Return the command that restores the collection in `folder`: from its last good copy, or from a backup."""
    if folder.name == COPY:
        return "restore a backup"
    aside = folder.with_name(f"{folder.name}-damaged")
    move = f"mv {shlex.quote(str(folder))} {shlex.quote(str(aside))}"
    copy = folder / COPY / DATABASE
    if not _has_content(copy):
        return f"restore a backup: `{move} && cbir collection restore BACKUP {shlex.quote(str(folder))}`"
    source = shlex.quote(str(aside / COPY))
    return (
        f"restore a newer backup, or the last good copy, of {time_of_copy(folder)}: "
        f"`{move} && cbir collection restore {source} {shlex.quote(str(folder))}`"
    )


def time_of_copy(folder: Path) -> str:
    """Return when the last good copy of the collection in `folder` was made, by its snapshot, which never changes."""
    copy = folder / COPY
    paths = [path for path in (copy / "snapshots").glob("*") if path.is_file()] or [copy]
    newest = max(path.stat().st_mtime for path in paths)
    return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(newest))} UTC"


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
