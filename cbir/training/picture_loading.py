"""Image files as small grey pictures of one size, all in memory."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images import Limits, read_images
from cbir.images.pad_resize import pad_resize
from cbir.threads import cores


@dataclass(frozen=True, eq=False)
class LoadedPictures:
    """What was read of some files: the first frame of each.

    pixels: (n, side, side) uint8. places: (n,) which of the paths they are. contents: the hash of each picture at
    full size. burned_in: whether DICOM says that text is in it. patients: as DICOM names them, else "". refused: a
    line for each file that could not be read.
    """

    pixels: NDArray[np.uint8]
    places: NDArray[np.int64]
    contents: list[str]
    burned_in: list[bool]
    patients: list[str]
    refused: list[str]


def load_pictures(
    paths: Sequence[Path],
    side: int,
    limits: Limits = Limits(),
    progress: Callable[[int], None] = lambda done: None,
) -> LoadedPictures:
    """Read files on every core; `progress` is told how many are done. Memory: side x side bytes a file."""

    def one(path: Path) -> tuple[NDArray[np.uint8], str, bool, str] | str:
        try:
            image = next(read_images(path, limits=limits))
        except UnreadableImage as error:
            return str(error)
        header = image.dicom
        told = (header.burned_in, header.patient_id) if header else (False, "")
        return pad_resize(image, side), image.content_hash, *told

    pixels = np.zeros((len(paths), side, side), np.uint8)
    places: list[int] = []
    told: list[tuple[str, bool, str]] = []
    refused: list[str] = []
    with ThreadPoolExecutor(cores()) as executor:
        for place, got in enumerate(executor.map(one, paths)):
            progress(place + 1)
            if isinstance(got, str):
                refused.append(got)
                continue
            pixels[len(places)] = got[0]
            places.append(place)
            told.append(got[1:])
    contents, burned_in, patients = (list(of) for of in zip(*told, strict=True)) if told else ([], [], [])
    return LoadedPictures(pixels[: len(places)], np.array(places, np.int64), contents, burned_in, patients, refused)
