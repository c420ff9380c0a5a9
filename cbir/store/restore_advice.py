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
    made_at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(copy.parent.stat().st_mtime))
    source = shlex.quote(str(aside / COPY))
    return (
        f"restore a newer backup, or the last good copy, of {made_at} UTC: "
        f"`{move} && cbir collection restore {source} {shlex.quote(str(folder))}`"
    )


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
