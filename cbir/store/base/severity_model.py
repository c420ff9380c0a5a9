"""Folder of the ranker that predicts the severity of a collection's images, stored inside the collection."""

import json
import shutil
from pathlib import Path

from cbir.store.base import descriptor_model, file_manifest
from cbir.system.atomic import SUFFIX, rename_durably

SEVERITY_FOLDER, SEVERITY_CARD = "severity", "severity.json"
PARTIAL_SEVERITY = f"{SEVERITY_FOLDER}.partial"


def read_severity_conditions(folder: Path) -> tuple[str, ...]:
    """Return the conditions on the images that the ranker of the collection in `folder` is for; () for all."""
    return read_ranker_conditions(folder / SEVERITY_FOLDER)


def read_ranker_conditions(folder: Path) -> tuple[str, ...]:
    """Return the conditions on the images that the ranker in `folder` was trained on; () for all."""
    try:
        card = json.loads((folder / SEVERITY_CARD).read_bytes())
    except (OSError, ValueError):
        return ()  # no ranker; whoever uses a damaged one reports it
    conditions = card.get("where") if isinstance(card, dict) else None
    return tuple(map(str, conditions)) if isinstance(conditions, list) else ()


def copy_severity_model(folder: Path, target: Path) -> None:
    """Copy the ranker of the collection in `folder`, if it has one, into the collection in `target`."""
    if (folder / SEVERITY_FOLDER).is_dir():
        partial = target / PARTIAL_SEVERITY
        shutil.rmtree(partial, ignore_errors=True)  # of an interrupted copy
        shutil.copytree(folder / SEVERITY_FOLDER, partial, ignore=shutil.ignore_patterns("*.partial"))
        rename_durably(partial, target / SEVERITY_FOLDER)


def note_ranker(folder: Path) -> None:
    """Write the manifest of the ranker that was stored in the collection in `folder`."""
    names = [path.name for path in (folder / SEVERITY_FOLDER).iterdir() if path.is_file()]
    ours = (file_manifest.MANIFEST_NAME, f"{file_manifest.MANIFEST_NAME}{SUFFIX}")
    file_manifest.write_sums(folder / SEVERITY_FOLDER, [name for name in names if name not in ours])


def forget_ranker(folder: Path) -> None:
    """Delete the manifest of the ranker of the collection in `folder`, before another one is stored."""
    (folder / SEVERITY_FOLDER / file_manifest.MANIFEST_NAME).unlink(missing_ok=True)


def drop_severity_model(folder: Path) -> None:
    """Delete the ranker of the collection in `folder`, if it has one."""
    for name in (SEVERITY_FOLDER, PARTIAL_SEVERITY):
        shutil.rmtree(folder / name, ignore_errors=True)


def copy_models(folder: Path, target: Path) -> None:
    """Copy the models of the collection in `folder`, if it has any, to the folder `target`."""
    if descriptor_model.has_model(folder / descriptor_model.MODEL_FOLDER):
        descriptor_model.copy_model(
            folder / descriptor_model.MODEL_FOLDER, target / descriptor_model.MODEL_FOLDER
        )
    copy_severity_model(folder, target)
