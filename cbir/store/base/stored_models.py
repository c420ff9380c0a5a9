"""Models stored in a collection: that of its descriptor, without which its vectors mean nothing, and of severity."""

import hashlib
import json
import shutil
from contextlib import suppress
from pathlib import Path

from cbir.descriptors import lens_files, network_descriptors, slit_lamp_descriptor
from cbir.descriptors.networks import model_card
from cbir.errors import AccessDenied, CbirError, InvalidInput, access_denied
from cbir.store.base import collection_folder
from cbir.store.base.collection_folder import changed_files, file_mode, folder_mode, write_sums
from cbir.store.base.profile import Profile
from cbir.system.files import SUFFIX, copy_file, rename_durably
from cbir.system.ownership import make_folder

MODEL_FOLDER = "model"

# The card comes last: it marks the model as complete.
MODEL_FILES = (model_card.EMBEDDING_WEIGHTS, model_card.EMBEDDING_ONNX, model_card.EMBEDDING_CARD)


def store_descriptor_model(folder: Path, profile: Profile) -> None:
    """Copy the model of a profile into the collection in `folder`; other descriptors have none."""
    if profile.has_model:
        if profile.model is None:
            raise InvalidInput(
                f"the model of {profile.descriptor} is not available; name its folder as the profile"
            )
        copy_model(profile.model, folder / MODEL_FOLDER)


def has_model(folder: Path) -> bool:
    """Return whether `folder` has a model."""
    return model_card.has_embedding(folder) or lens_files.has_lens_model(folder)


def copy_model(source: Path, target: Path) -> None:
    """Copy the files of a model from the folder `source` to the folder `target`, each atomically."""
    make_folder(target, folder_mode(target.parent), exist_ok=True)
    copied = []
    for name in MODEL_FILES if model_card.has_embedding(source) else (lens_files.LENS_CARD,):
        if name == model_card.EMBEDDING_ONNX and not (source / name).exists():
            continue  # torch runs the model then
        copy_file(source / name, target / name, file_mode(target))
        copied.append(name)
    write_sums(target, copied)


def with_model(profile: Profile, folder: Path) -> Profile:
    """Return `profile` with the model in a collection's folder; a last good copy uses its collection's.

    A damaged model is left out: indexed images can still be found by their vectors.
    """
    for path in (folder / MODEL_FOLDER, folder.parent / MODEL_FOLDER):
        with suppress(CbirError):
            if has_model(path) and profile.descriptor.startswith(_descriptor_name(path)):
                return profile.model_copy(update={"model": path})
    return profile


def _descriptor_name(folder: Path) -> str:
    if model_card.has_embedding(folder):
        return network_descriptors.descriptor_name(folder)
    return slit_lamp_descriptor.slit_lamp_name(folder)


def model_problem(folder: Path, profile: Profile) -> str | None:
    """Describe damage of the model in a collection's folder; None if it is sound or the profile has none."""
    try:
        if changed := changed_files(folder / MODEL_FOLDER):
            return f"files of the model are missing or have changed: {', '.join(changed)}"
        if slit_lamp_descriptor.SLIT_LAMP.fullmatch(profile.descriptor):
            return _lens_problem(folder, profile)
        name = network_descriptors.EMBEDDING_NAME.fullmatch(profile.descriptor)
        return _embedding_problem(folder, name[1]) if name else None
    except AccessDenied:
        raise
    except PermissionError as error:
        raise access_denied(error, folder / MODEL_FOLDER) from error
    except (CbirError, OSError) as error:
        return f"the model cannot be read: {error}"


def _lens_problem(folder: Path, profile: Profile) -> str | None:
    matches = slit_lamp_descriptor.slit_lamp_name(folder / MODEL_FOLDER) == profile.descriptor
    return None if matches else "the model is not the one that computed the vectors"


def _embedding_problem(folder: Path, digest_start: str) -> str | None:
    card = model_card.read_embedding_card(folder / MODEL_FOLDER)
    digest = _sha256(folder / MODEL_FOLDER / model_card.EMBEDDING_WEIGHTS)
    exported = folder / MODEL_FOLDER / model_card.EMBEDDING_ONNX
    used = "onnx_sha256" in card and exported.exists()  # else torch computes
    damaged = used and _sha256(exported) != card["onnx_sha256"]
    if digest != card["sha256"] or digest[:16] != digest_start:
        return "the model is not the one that computed the vectors"
    return (
        f"{model_card.EMBEDDING_ONNX} of the model is not the file that its card describes"
        if damaged
        else None
    )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
        left_out = shutil.ignore_patterns("*.partial")
        shutil.copytree(folder / SEVERITY_FOLDER, partial, symlinks=True, ignore=left_out)  # links stay links
        rename_durably(partial, target / SEVERITY_FOLDER)


def note_ranker(folder: Path) -> None:
    """Write the manifest of the ranker that was stored in the collection in `folder`."""
    names = [path.name for path in (folder / SEVERITY_FOLDER).iterdir() if path.is_file()]
    ours = (collection_folder.MANIFEST_NAME, f"{collection_folder.MANIFEST_NAME}{SUFFIX}")
    collection_folder.write_sums(folder / SEVERITY_FOLDER, [name for name in names if name not in ours])


def forget_ranker(folder: Path) -> None:
    """Delete the manifest of the ranker of the collection in `folder`, before another one is stored."""
    (folder / SEVERITY_FOLDER / collection_folder.MANIFEST_NAME).unlink(missing_ok=True)


def drop_severity_model(folder: Path) -> None:
    """Delete the ranker of the collection in `folder`, if it has one."""
    for name in (SEVERITY_FOLDER, PARTIAL_SEVERITY):
        shutil.rmtree(folder / name, ignore_errors=True)


def copy_models(folder: Path, target: Path) -> None:
    """Copy the models of the collection in `folder`, if it has any, to the folder `target`."""
    if has_model(folder / MODEL_FOLDER):
        copy_model(folder / MODEL_FOLDER, target / MODEL_FOLDER)
    copy_severity_model(folder, target)
