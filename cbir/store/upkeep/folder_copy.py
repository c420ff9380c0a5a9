"""Copies of what a collection's folder holds beside its database."""

import shutil
from contextlib import suppress
from pathlib import Path

from cbir.store.base import descriptor_model, severity_model
from cbir.store.records.originals import FOLDER as ORIGINALS
from cbir.system.files import OWNER_FOLDER, SUFFIX


def copy_models(folder: Path, target: Path) -> None:
    """Copy the models of the collection in `folder`, if it has any, to the folder `target`."""
    if descriptor_model.has_model(folder / descriptor_model.FOLDER):
        descriptor_model.copy_model(folder / descriptor_model.FOLDER, target / descriptor_model.FOLDER)
    severity_model.copy_severity_model(folder, target)


def copy_originals(folder: Path, target: Path) -> None:
    """Copy those originals of the collection in `folder` that the folder `target` does not have yet."""
    if not (folder / ORIGINALS).is_dir():
        return
    (target / ORIGINALS).mkdir(mode=OWNER_FOLDER, exist_ok=True)
    for path in (folder / ORIGINALS).iterdir():
        copy = target / ORIGINALS / path.name
        if path.suffix != SUFFIX and not copy.exists():
            with suppress(FileNotFoundError):  # deleted meanwhile
                shutil.copy2(path, copy)
