"""Trained embedding of a collection, stored inside it: without the model its vectors mean nothing."""

import hashlib
from contextlib import suppress
from pathlib import Path

from cbir.atomic import copy_file
from cbir.descriptors import embedding_descriptor
from cbir.errors import CbirError, InvalidInput
from cbir.models import embedding_card
from cbir.store.permissions import file_mode, folder_mode
from cbir.store.profile import Profile

FOLDER = "model"
# The card comes last: it marks the model as complete.
FILES = (embedding_card.WEIGHTS, embedding_card.ONNX, embedding_card.CARD)


def store_embedding_model(folder: Path, profile: Profile) -> None:
    """Copy the model of a profile into the collection in `folder`; other descriptors have none."""
    if embedding_descriptor.NAME.fullmatch(profile.descriptor):
        if profile.model is None:
            raise InvalidInput(
                f"the model of {profile.descriptor} is not available; name its folder as the profile"
            )
        copy_model(profile.model, folder / FOLDER)


def copy_model(source: Path, target: Path) -> None:
    """Copy the files of a model from the folder `source` to the folder `target`, each atomically."""
    target.mkdir(mode=folder_mode(target.parent), exist_ok=True)
    for name in FILES:
        if name == embedding_card.ONNX and not (source / name).exists():
            continue  # torch runs the model then
        copy_file(source / name, target / name)
        (target / name).chmod(file_mode(target))


def with_model(profile: Profile, folder: Path) -> Profile:
    """Return `profile` with the model in a collection's folder; a last good copy uses its collection's.

    A damaged model is left out: indexed images can still be found by their vectors.
    """
    for path in (folder / FOLDER, folder.parent / FOLDER):
        with suppress(CbirError):
            if embedding_card.has_embedding(path) and profile.descriptor.startswith(
                embedding_descriptor.descriptor_name(path)
            ):
                return profile.model_copy(update={"model": path})
    return profile


def model_problem(folder: Path, profile: Profile) -> str | None:
    """Describe damage of the model in a collection's folder; None if it is sound or the profile has none."""
    name = embedding_descriptor.NAME.fullmatch(profile.descriptor)
    if not name:
        return None
    try:
        card = embedding_card.read_embedding_card(folder / FOLDER)
        digest = _sha256(folder / FOLDER / embedding_card.WEIGHTS)
        exported = folder / FOLDER / embedding_card.ONNX
        used = "onnx_sha256" in card and exported.exists()  # else torch computes
        damaged = used and _sha256(exported) != card["onnx_sha256"]
    except (CbirError, OSError) as error:
        return f"the model cannot be read: {error}"
    if digest != card["sha256"] or digest[:16] != name[1]:
        return "the model is not the one that computed the vectors"
    return f"{embedding_card.ONNX} of the model is not the file that its card describes" if damaged else None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
