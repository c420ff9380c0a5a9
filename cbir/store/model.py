"""The trained embedding that a collection was made with lies inside it: its vectors mean nothing without."""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from cbir.descriptors import embedding_descriptor
from cbir.errors import CbirError
from cbir.models import embedding_card
from cbir.store.profile import Profile
from cbir.store.snapshot import sync_folder

FOLDER = "model"
FILES = (
    embedding_card.WEIGHTS,
    embedding_card.ONNX,
    embedding_card.CARD,
)  # the card last: it says that the model is complete


def keep(folder: Path, profile: Profile) -> None:
    """Copy the model of a profile into the collection in `folder`; nothing to do for other descriptors."""
    if embedding_descriptor.NAME.fullmatch(profile.descriptor):
        copy(embedding_descriptor.folder_of(profile.descriptor), folder / FOLDER)


def copy(source: Path, target: Path) -> None:
    """The files of a model, on the disk before they have their names."""
    target.mkdir(exist_ok=True)
    for name in FILES:
        if name == embedding_card.ONNX and not (source / name).exists():
            continue  # torch will do
        partial = target / f"{name}.partial"
        shutil.copyfile(source / name, partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(target / name)
    sync_folder(target)


def meet(folder: Path) -> None:
    """Make the model in a collection's folder known to this process; a last good copy uses its collection's.

    A damaged one is passed over: what is indexed is still found by its vectors, and describing says what is wrong.
    """
    for place in (folder / FOLDER, folder.parent / FOLDER):
        if embedding_card.is_model(place):
            with suppress(CbirError):
                embedding_descriptor.register(place)


def problem(folder: Path, profile: Profile) -> str | None:
    """What is wrong with the model in a collection's folder; None where nothing is, or none belongs there."""
    named = embedding_descriptor.NAME.fullmatch(profile.descriptor)
    if not named:
        return None
    try:
        card = embedding_card.read(folder / FOLDER)
        digest = _sha256(folder / FOLDER / embedding_card.WEIGHTS)
        exported = folder / FOLDER / embedding_card.ONNX
        used = "onnx_sha256" in card and exported.exists()  # else torch computes
        damaged = used and _sha256(exported) != card["onnx_sha256"]
    except (CbirError, OSError) as error:
        return f"the model cannot be read: {error}"
    if digest != card["sha256"] or digest[:16] != named[1]:
        return "the model is not the one that the vectors were made with"
    return f"{embedding_card.ONNX} of the model is not the file that its card describes" if damaged else None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
