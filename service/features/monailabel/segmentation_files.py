"""Segmentations that MONAI Label's clients send, in the folder of the setting `annotation_folder`.

The folder of an image has a manifest with the hashes of its segmentations, which `check_segmentations` compares.
"""

import os
import re
from collections.abc import Collection as Ids
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cbir.errors import AccessDenied, CollectionDamaged, InvalidInput, NotFound, raise_when_denied
from cbir.settings import Settings
from cbir.store.base import collection_folder
from cbir.system.files import private_folder, wait_lock, write_bytes
from service.http.problems import NotAllowed
from service.state.sqlite_file import opened_for_owner

SUFFIXES = (".seg.nrrd", ".nrrd", ".nii.gz", ".nii", ".json")
MAX_SEGMENTATIONS = 16  # of an image
LOCK = ".lock"  # file that all services with the folder lock while they write there
TAG = re.compile(r"[A-Za-z0-9_-]{1,32}")


def segmentation_suffix(name: str) -> str:
    """Return the suffix of a file's name; raises InvalidInput for other files than segmentations."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            return suffix
    raise InvalidInput(f"label: send a file that ends in {', '.join(SUFFIXES)}")


def check_tag(tag: str) -> str:
    """Return the tag of a segmentation; raises InvalidInput if it could not be part of a file's name."""
    if not TAG.fullmatch(tag):
        raise InvalidInput("tag: 1 to 32 letters, digits, _ and -")
    return tag


def store_segmentation(settings: Settings, image_id: str, tag: str, suffix: str, content: bytes) -> None:
    """Store the segmentation of an image, in place of an earlier one with the same tag.

    Parameters
    ----------
    settings : Settings
        With the folder.
    image_id : str
        Id of an image that exists.
    tag : str
        Checked tag.
    suffix : str
        One of SUFFIXES.
    content : bytes
        The file.

    Raises
    ------
    NotAllowed
        Without a folder.
    InvalidInput
        If the image has as many segmentations with other tags as it may have.
    """
    folder = annotation_folder(settings) / image_id
    with _only_writer(annotation_folder(settings)):
        private_folder(folder)
        others = segmentations(settings, image_id).keys() - {tag}
        if len(others) >= MAX_SEGMENTATIONS:
            raise InvalidInput(
                f"tag: an image has at most {MAX_SEGMENTATIONS} segmentations; use a tag that it has"
            )
        earlier = [path.name for path in _files(folder, tag)]
        _note_files(folder, (), earlier)  # else a kill would leave the hash of another content
        write_bytes(folder / f"{tag}{suffix}", content)
        for name in earlier:
            if name != f"{tag}{suffix}":
                (folder / name).unlink(missing_ok=True)
        _note_files(folder, [f"{tag}{suffix}"])


def _note_files(folder: Path, written: Sequence[str], removed: Sequence[str] = ()) -> None:
    """Note files in the manifest of an image's folder; a damaged one stays as it is, and is reported."""
    with suppress(CollectionDamaged):
        if collection_folder.read_sums(folder) is None:
            collection_folder.write_sums(folder, written)
        else:
            collection_folder.update_sums(folder, written, removed)


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Wait until no other thread or process writes segmentations, so that none is counted too late."""
    private_folder(folder)
    with opened_for_owner(folder / LOCK, os.O_RDWR | os.O_CREAT) as file:
        wait_lock(file)
        yield


def check_segmentations(folder: Path) -> list[str]:
    """Compare all segmentations with the manifests; return the problems.

    Those without a hash, which an earlier version or an interrupted request stored, get one as they are.
    """
    problems: list[str] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.is_dir():
            try:
                with raise_when_denied(path), _only_writer(folder):
                    problems += _check_image(path)
            except FileNotFoundError:  # erased meanwhile
                continue
            except AccessDenied as denied:
                problems.append(str(denied))
    return problems


def segmentation_problems(settings: Settings) -> list[str]:
    """Return the problems of the segmentations of a service, for `cbir admin state verify`."""
    if settings.annotation_folder is None:
        return []
    try:
        with raise_when_denied(settings.annotation_folder):
            return check_segmentations(settings.annotation_folder)
    except AccessDenied as denied:
        return [str(denied)]
    except OSError as error:
        return [f"{error.filename} cannot be read: {error.strerror}"]


def _check_image(folder: Path) -> list[str]:
    try:
        if changed := collection_folder.changed_files(folder):
            return [
                f"segmentations in {folder} are missing or have changed: {', '.join(changed)}; restore them from a "
                "copy, or send them again"
            ]
    except CollectionDamaged as damage:
        return [f"{damage}; restore it from a copy, or delete it: `cbir admin state verify` makes another"]
    noted = collection_folder.read_sums(folder) or {}
    new = [path.name for path in folder.iterdir() if path.name.endswith(SUFFIXES) and path.name not in noted]
    if new:
        _note_files(folder, new)
    return []


def find_segmentation(settings: Settings, image_id: str, tag: str) -> Path:
    """Return the file of an image's segmentation.

    Parameters
    ----------
    settings : Settings
        With the folder.
    image_id : str
        Id of an image that exists.
    tag : str
        Checked tag.

    Raises
    ------
    NotFound
        If there is none with this tag.
    """
    for path in _files(annotation_folder(settings) / image_id, tag):
        return path
    raise NotFound(f"there is no segmentation {tag} of the image")


def segmentations(settings: Settings, image_id: str) -> dict[str, str]:
    """Return the suffixes of the segmentations of an image by tag."""
    folder = settings.annotation_folder and settings.annotation_folder / image_id
    if not folder or not folder.is_dir():
        return {}
    names = sorted(path.name.partition(".") for path in folder.iterdir())
    return {tag: f".{rest}" for tag, _, rest in names if f".{rest}" in SUFFIXES}


def annotation_folder(settings: Settings) -> Path:
    """Return the folder; raises NotAllowed if the settings name none, since the file would be lost."""
    if settings.annotation_folder is None:
        raise NotAllowed("segmentations are not stored here: the setting annotation_folder names no folder")
    return settings.annotation_folder


def erase_segmentations(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Delete the segmentations of a patient's images.

    Parameters
    ----------
    settings : Settings
        Those of the service; without a folder there is nothing to do.
    keys : sequence of str
        Keys that the patient may have.
    image_ids : collection of str
        Images of the patient.
    """
    if settings.annotation_folder is None or not settings.annotation_folder.is_dir():
        return
    with _only_writer(settings.annotation_folder):
        for image_id in image_ids:
            folder = settings.annotation_folder / image_id
            if folder.is_dir():
                for path in folder.iterdir():
                    path.unlink(missing_ok=True)
                folder.rmdir()


def segmented_images(settings: Settings) -> dict[str, set[str]]:
    """Return the ids of the images that have a folder of segmentations."""
    folder = settings.annotation_folder
    return {"segmentations": {path.name for path in folder.iterdir()}} if folder and folder.is_dir() else {}


def _files(folder: Path, tag: str) -> list[Path]:
    paths = (folder / f"{tag}{suffix}" for suffix in SUFFIXES)
    return [path for path in paths if path.is_file()]
