"""The ranker that was learnt from comparisons lies inside the collection whose images it gives a severity."""

import shutil
from pathlib import Path

FOLDER = "severity"


def copy(folder: Path, target: Path) -> None:
    """Copy the ranker of the collection in `folder`, if there is one, into the collection in `target`."""
    if (folder / FOLDER).is_dir():
        shutil.copytree(folder / FOLDER, target / FOLDER, ignore=shutil.ignore_patterns("*.partial"))


def drop(folder: Path) -> None:
    """Remove it, if there is one."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
