"""Folder of the ranker that predicts the severity of a collection's images, stored inside the collection."""

import shutil
from pathlib import Path

FOLDER = "severity"


def copy_severity_model(folder: Path, target: Path) -> None:
    """Copy the ranker of the collection in `folder`, if it has one, into the collection in `target`."""
    if (folder / FOLDER).is_dir():
        shutil.copytree(folder / FOLDER, target / FOLDER, ignore=shutil.ignore_patterns("*.partial"))


def drop_severity_model(folder: Path) -> None:
    """Delete the ranker of the collection in `folder`, if it has one."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
