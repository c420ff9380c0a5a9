"""DICOM bytes to a data set that has pixels and says how to read them."""

import zlib
from io import BytesIO
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import Dataset
from pydicom.filereader import read_dataset, read_preamble
from pydicom.multival import MultiValue
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)

from cbir.errors import UnreadableImage
from cbir.images.limits import Limits

PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
PIECE = 2**20  # bytes inflated at a time


class NoPixels(UnreadableImage):
    """A DICOM object without an image: a report, a presentation state, a plan."""


def parse_dataset(data: bytes, limits: Limits) -> Dataset:
    """The data set of a DICOM file, with a transfer syntax, checked for pixels and against the limits.

    A file without preamble and meta information is read as pydicom guesses its encoding. Raises UnreadableImage.
    """
    _check_deflated(data, limits)
    dataset = pydicom.dcmread(BytesIO(data), force=True)
    if not any(keyword in dataset for keyword in PIXELS):
        kind = _kind(dataset)
        if "Image Storage" in kind:  # in the names of all classes of images, and of no others
            raise UnreadableImage(
                f"has no pixels, though {kind}: a header alone, or cut short; copy or export it again"
            )
        raise NoPixels(f"holds no pixels: {kind}; give an object with an image")
    if "Rows" not in dataset or "Columns" not in dataset:
        raise UnreadableImage("does not say how many Rows and Columns it has; export it again")
    limits.check_pixels(integer(dataset, "Columns", 0), integer(dataset, "Rows", 0))
    limits.check_frames(frame_count(dataset))
    if integer(dataset, "SamplesPerPixel", 1) not in (1, 3):
        raise UnreadableImage("has neither 1 nor 3 samples per pixel; convert it to grey or RGB")
    if "TransferSyntaxUID" not in dataset.file_meta:
        implicit, little = dataset.original_encoding
        explicit = ExplicitVRLittleEndian if little else ExplicitVRBigEndian
        dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian if implicit else explicit
    return dataset


def _check_deflated(data: bytes, limits: Limits) -> None:
    """Refuse a deflated data set that inflates to more than the limit, without keeping what is inflated."""
    file = BytesIO(data)
    read_preamble(file, force=True)
    meta = read_dataset(file, False, True, stop_when=lambda tag, vr, length: tag.group != 2)
    if meta.get("TransferSyntaxUID") != DeflatedExplicitVRLittleEndian:
        return
    inflate, rest, size = zlib.decompressobj(-zlib.MAX_WBITS), file.read(), 0
    while rest and not inflate.eof:
        size += len(inflate.decompress(rest, PIECE))
        rest = inflate.unconsumed_tail
        limits.check_bytes(max(size, 1))
    if not inflate.eof:
        raise UnreadableImage("is cut short in its deflated data set; copy or export it again")


def _kind(dataset: Dataset) -> str:
    """What an object without pixels is, in the standard's words."""
    uid = dataset.get("SOPClassUID") or dataset.file_meta.get("MediaStorageSOPClassUID") or ""
    return f"it is of class {UID(uid).name}" if UID(uid).name != uid else "it is of no class that is known"


def frame_count(dataset: Dataset) -> int:
    """NumberOfFrames, 1 where it is absent or empty. Raises UnreadableImage where it is no number."""
    try:
        return int(dataset.get("NumberOfFrames") or 1)
    except (TypeError, ValueError):
        raise UnreadableImage("has a NumberOfFrames that is no number; export it again") from None


def integer(dataset: Dataset, keyword: str, otherwise: int) -> int:
    """The first of a whole-number attribute's values; `otherwise` where it is absent or empty."""
    number = first_number(dataset, keyword)
    return otherwise if number is None else int(number)


def first_number(dataset: Dataset, keyword: str) -> float | None:
    """The first of an attribute's values; None where it is absent, empty, no number or not finite."""
    try:
        value: Any = dataset.get(keyword)
        number = float(value[0] if isinstance(value, (list, tuple, MultiValue)) else value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return number if np.isfinite(number) else None
