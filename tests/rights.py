"""Rights of files and folders that commands leave."""

import os
from pathlib import Path


def open_to_others(folder: Path) -> list[str]:
    """The folder, and the files and folders in it, that others than the owner have a right to."""
    paths = [] if os.name == "nt" else [folder, *folder.rglob("*")]
    return [str(path) for path in paths if path.stat().st_mode & 0o077]
