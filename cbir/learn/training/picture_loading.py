"""Image files as small grey pictures of one size, all in memory, with what training needs to know about them."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.feature_cache import FeatureCache
from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Image, Limits, read_images
from cbir.images.scaling import pad_resize
from cbir.system.threads import cores

LISTED = 5  # unreadable files in the notes
StageCallback = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Example:
    """A row of a manifest; `patient` is "" if it names none."""

    path: Path
    patient: str


E = TypeVar("E", bound=Example)


@dataclass(frozen=True, eq=False)
class LoadedPictures:
    """The first frame of each readable file.

    Attributes
    ----------
    pixels : (n, side, side) uint8, or (n, ...)
        Grey pictures, or what `load_described` made of each.
    rows : (n,) int
        Index of the file among the paths.
    content_hashes : list of str
        Hash of each picture at full size.
    burned_in : list of bool
        Whether DICOM declares burned-in text.
    patients : list of str
        Patient in the DICOM header, else "".
    refused : list of str
        A line for each unreadable file.
    """

    pixels: NDArray[Any]
    rows: NDArray[np.int64]
    content_hashes: list[str]
    burned_in: list[bool]
    patients: list[str]
    refused: list[str]


@dataclass(frozen=True, eq=False)
class TrainingImages(Generic[E]):
    """Examples of a manifest with their pictures.

    Attributes
    ----------
    examples : list
        Those whose files are readable.
    pictures : LoadedPictures
        Their pictures.
    groups : list of str
        Patient by the manifest, else by the DICOM header; else an id of the picture.
    has_patients : bool
        Whether any patient is named.
    max_pixels : int
        Limit that applied to the files.
    """

    examples: list[E]
    pictures: LoadedPictures
    groups: list[str]
    has_patients: bool
    max_pixels: int

    def notes(self) -> list[str]:
        """Return remarks for the user: unreadable files, and missing patients."""
        refused = self.pictures.refused
        notes = [f"left out: {line}" for line in refused[:LISTED]]
        if len(refused) > LISTED:
            notes.append(f"left out: {len(refused) - LISTED} more unreadable files")
        if not self.has_patients:
            notes.append(
                "no patients are named: images of one patient may be in both training and test, "
                "which makes the results look better than they are"
            )
        return notes


def load_training_images(examples: Sequence[E], side: int, show: StageCallback) -> TrainingImages[E]:
    """Load the pictures of examples.

    Parameters
    ----------
    examples : sequence
        Rows of a manifest.
    side : int
        Height and width of the pictures in pixels.
    show : callable
        Receives the stage, files done, all files and a text.

    Raises
    ------
    InvalidInput
        If most files are unreadable.
    """
    limits, paths, progress = _plan(examples, show)
    return _join(examples, load_pictures(paths, side, limits, progress), limits)


def load_training_features(examples: Sequence[E], encoder: Encoder, show: StageCallback) -> TrainingImages[E]:
    """Load the values that an encoder gives of examples: `pictures.pixels` are (n, d) float16.

    Parameters
    ----------
    examples : sequence
        Rows of a manifest.
    encoder : Encoder
        Pretrained network; images that it has described before are not described again.
    show : callable
        Receives the stage, files done, all files and a text.

    Raises
    ------
    InvalidInput
        If most files are unreadable.
    """
    limits, paths, progress = _plan(examples, show)
    return _join(examples, load_features(paths, encoder, limits=limits, progress=progress), limits)


def _plan(examples: Sequence[E], show: StageCallback) -> tuple[Limits, list[Path], Callable[[int], None]]:
    paths = [example.path for example in examples]
    return (
        Limits.from_settings(settings.load()), paths, lambda done: show("reading", done, len(paths), "")
    )  # fmt: skip


def _join(examples: Sequence[E], pictures: LoadedPictures, limits: Limits) -> TrainingImages[E]:
    """Join pictures with their examples."""
    if len(pictures.refused) > len(pictures.rows):
        raise InvalidInput(f"most files cannot be read; the first: {pictures.refused[0]}")
    readable = [examples[row] for row in pictures.rows]
    patients = [row.patient or header for row, header in zip(readable, pictures.patients, strict=True)]
    contents = (f"picture {content}" for content in pictures.content_hashes)
    groups = [patient or content for patient, content in zip(patients, contents, strict=True)]
    return TrainingImages(readable, pictures, groups, any(patients), limits.pixels)


def load_pictures(
    paths: Sequence[Path],
    side: int,
    limits: Limits = Limits(),
    progress: Callable[[int], None] = lambda done: None,
) -> LoadedPictures:
    """Load files on every core, side * side bytes each.

    Parameters
    ----------
    paths : sequence of Path
        Image files.
    side : int
        Height and width of the pictures in pixels.
    limits : Limits
        Limits on the files.
    progress : callable
        Receives the number of files done.
    """
    empty = np.zeros((len(paths), side, side), np.uint8)
    return load_described(paths, lambda image: pad_resize(image, side), empty, limits, progress)


def load_features(
    paths: Sequence[Path],
    encoder: Encoder,
    folder: Path | None = None,
    limits: Limits = Limits(),
    progress: Callable[[int], None] = lambda done: None,
) -> LoadedPictures:
    """Load files on every core, and describe them by an encoder, each image once: `pixels` are (n, d) float16.

    Parameters
    ----------
    paths : sequence of Path
        Image files.
    encoder : Encoder
        Pretrained network.
    folder : Path, optional
        Folder of cached values, by default the setting feature_folder.
    limits : Limits
        Limits on the files.
    progress : callable
        Receives the number of files done.
    """
    empty = np.zeros((len(paths), encoder.dimensions), np.float16)
    with FeatureCache(encoder, folder or settings.load().feature_folder) as cache:
        return load_described(paths, cache.describe, empty, limits, progress)


def load_described(
    paths: Sequence[Path],
    describe: Callable[[Image], NDArray[Any]],
    values: NDArray[Any],
    limits: Limits = Limits(),
    progress: Callable[[int], None] = lambda done: None,
) -> LoadedPictures:
    """Load files on every core, and keep what `describe` makes of their first frames.

    Parameters
    ----------
    paths : sequence of Path
        Image files.
    describe : callable
        From an image to an array; called by several threads.
    values : (len(paths), ...)
        Array to write to.
    limits : Limits
        Limits on the files.
    progress : callable
        Receives the number of files done.
    """

    def load_picture(path: Path) -> tuple[NDArray[Any], str, bool, str] | str:
        try:
            image = next(read_images(path, limits=limits))
            described = describe(image)
        except UnreadableImage as error:
            return str(error)
        burned_in, patient = (image.dicom.burned_in, image.dicom.patient_id) if image.dicom else (False, "")
        return described, image.content_hash, burned_in, patient

    pictures = LoadedPictures(values, np.zeros(0, np.int64), [], [], [], [])
    rows: list[int] = []
    with ThreadPoolExecutor(cores()) as executor:
        for row, outcome in enumerate(executor.map(load_picture, paths)):
            progress(row + 1)
            if isinstance(outcome, str):
                pictures.refused.append(outcome)
                continue
            values[len(rows)], content, burned_in, patient = outcome
            rows.append(row)
            pictures.content_hashes.append(content)
            pictures.burned_in.append(burned_in)
            pictures.patients.append(patient)
    return replace(pictures, pixels=values[: len(rows)], rows=np.array(rows, np.int64))
