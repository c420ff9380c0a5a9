"""Segmentations that MONAI Label's clients send, in the folder of the setting `annotation_folder`."""

import os
import re
from collections.abc import Collection as Ids
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cbir.atomic import BINARY, OWNER_FILE, private_folder, write_bytes
from cbir.errors import InvalidInput, NotFound
from cbir.file_lock import wait_lock
from cbir.settings import Settings
from service.http.problems import NotAllowed

SUFFIXES = (".seg.nrrd", ".nrrd", ".nii.gz", ".nii", ".json")
LOCK = ".lock"  # file that all services with the folder lock while they write there
MAX_SEGMENTATIONS = 16  # of an image
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
        others = segmentations(settings, image_id).keys() - {tag}
        if len(others) >= MAX_SEGMENTATIONS:
            raise InvalidInput(
                f"tag: an image has at most {MAX_SEGMENTATIONS} segmentations; use a tag that it has"
            )
        private_folder(folder)
        write_bytes(folder / f"{tag}{suffix}", content)
        for other in _files(folder, tag):
            if other.name != f"{tag}{suffix}":
                other.unlink(missing_ok=True)


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Wait until no other thread or process writes segmentations, so that none is counted too late."""
    private_folder(folder)
    file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | BINARY, OWNER_FILE)
    try:
        wait_lock(file)
        yield
    finally:
        os.close(file)


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
    """Delete the segmentations of a patient's images, as an entry point of the group `cbir.erasers`.

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


def _files(folder: Path, tag: str) -> list[Path]:
    paths = (folder / f"{tag}{suffix}" for suffix in SUFFIXES)
    return [path for path in paths if path.is_file()]
