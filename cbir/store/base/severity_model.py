"""Folder of the ranker that predicts the severity of a collection's images, stored inside the collection."""

import json
import shutil
from pathlib import Path

from cbir.store.base import file_manifest
from cbir.system.files import SUFFIX, rename_durably

FOLDER, CARD = "severity", "severity.json"
PARTIAL = f"{FOLDER}.partial"


def read_severity_conditions(folder: Path) -> tuple[str, ...]:
    """Return the conditions on the images that the ranker of the collection in `folder` is for; () for all."""
    return read_ranker_conditions(folder / FOLDER)


def read_ranker_conditions(folder: Path) -> tuple[str, ...]:
    """Return the conditions on the images that the ranker in `folder` was trained on; () for all."""
    try:
        card = json.loads((folder / CARD).read_bytes())
    except (OSError, ValueError):
        return ()  # no ranker; whoever uses a damaged one reports it
    conditions = card.get("where") if isinstance(card, dict) else None
    return tuple(map(str, conditions)) if isinstance(conditions, list) else ()


def copy_severity_model(folder: Path, target: Path) -> None:
    """Copy the ranker of the collection in `folder`, if it has one, into the collection in `target`."""
    if (folder / FOLDER).is_dir():
        partial = target / PARTIAL
        shutil.rmtree(partial, ignore_errors=True)  # of an interrupted copy
        shutil.copytree(folder / FOLDER, partial, ignore=shutil.ignore_patterns("*.partial"))
        rename_durably(partial, target / FOLDER)


def note_ranker(folder: Path) -> None:
    """Write the manifest of the ranker that was stored in the collection in `folder`."""
    names = [path.name for path in (folder / FOLDER).iterdir() if path.is_file()]
    ours = (file_manifest.NAME, f"{file_manifest.NAME}{SUFFIX}")
    file_manifest.write_sums(folder / FOLDER, [name for name in names if name not in ours])


def forget_ranker(folder: Path) -> None:
    """Delete the manifest of the ranker of the collection in `folder`, before another one is stored."""
    (folder / FOLDER / file_manifest.NAME).unlink(missing_ok=True)


def drop_severity_model(folder: Path) -> None:
    """Delete the ranker of the collection in `folder`, if it has one."""
    for name in (FOLDER, PARTIAL):
        shutil.rmtree(folder / name, ignore_errors=True)
