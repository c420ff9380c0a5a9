"""Parsing of DICOM bytes to a data set with pixels and a transfer syntax."""

import zlib
from io import BytesIO
from typing import Any

import numpy as np
import pydicom
from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.filereader import read_dataset, read_preamble
from pydicom.multival import MultiValue

from cbir.errors import NoPixels, UnreadableImage
from cbir.images.limits import Limits

PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
CHUNK_BYTES = 2**20  # inflated at a time


def parse_dataset(data: bytes, limits: Limits) -> Dataset:
    """Parse the bytes of a DICOM file; check that it has pixels and keeps to `limits`.

    pydicom guesses the encoding of a file without preamble and meta information. Raises UnreadableImage.
    """
    _check_deflated(data, limits)
    dataset = pydicom.dcmread(BytesIO(data), force=True)
    if not any(keyword in dataset for keyword in PIXELS):
        kind = _kind(dataset)
        if "Image Storage" in kind:  # in the names of all image classes and no others
            raise UnreadableImage(
                f"has no pixels, though {kind}: only a header, or truncated; copy or export it again"
            )
        raise NoPixels(f"has no pixels: {kind}; choose an object with an image")
    if "Rows" not in dataset or "Columns" not in dataset:
        raise UnreadableImage("has no Rows or Columns; export it again")
    limits.check_pixels(integer(dataset, "Columns", 0), integer(dataset, "Rows", 0))
    limits.check_frames(frame_count(dataset))
    if integer(dataset, "SamplesPerPixel", 1) not in (1, 3):
        raise UnreadableImage("has neither 1 nor 3 samples per pixel; convert it to grey or RGB")
    if "TransferSyntaxUID" not in dataset.file_meta:
        implicit, little = dataset.original_encoding
        explicit = uid.ExplicitVRLittleEndian if little else uid.ExplicitVRBigEndian
        dataset.file_meta.TransferSyntaxUID = uid.ImplicitVRLittleEndian if implicit else explicit
    return dataset


def _check_deflated(data: bytes, limits: Limits) -> None:
    """Refuse a deflated data set that inflates to more than the limit; keep no inflated data."""
    file = BytesIO(data)
    read_preamble(file, force=True)
    meta = read_dataset(file, False, True, stop_when=lambda tag, vr, length: tag.group != 2)
    if meta.get("TransferSyntaxUID") != uid.DeflatedExplicitVRLittleEndian:
        return
    inflate, rest, size = zlib.decompressobj(-zlib.MAX_WBITS), file.read(), 0
    while rest and not inflate.eof:
        size += len(inflate.decompress(rest, CHUNK_BYTES))
        rest = inflate.unconsumed_tail
        limits.check_bytes(max(size, 1))
    if not inflate.eof:
        raise UnreadableImage("is truncated in its deflated data set; copy or export it again")


def _kind(dataset: Dataset) -> str:
    """Describe the SOP class of an object without pixels."""
    value = dataset.get("SOPClassUID") or dataset.file_meta.get("MediaStorageSOPClassUID") or ""
    name = uid.UID(value).name
    return f"it is of class {name}" if name != value else "it is of an unknown class"


def frame_count(dataset: Dataset) -> int:
    """Return NumberOfFrames, 1 if absent or empty; raise UnreadableImage if it is not a number."""
    try:
        return int(dataset.get("NumberOfFrames") or 1)
    except (TypeError, ValueError):
        raise UnreadableImage("has a NumberOfFrames that is not a number; export it again") from None


def integer(dataset: Dataset, keyword: str, default: int) -> int:
    """Return the first value of the integer attribute `keyword` of `dataset`, `default` if absent or empty."""
    number = first_number(dataset, keyword)
    return default if number is None else int(number)


def first_number(dataset: Dataset, keyword: str) -> float | None:
    """Return the first value of an attribute; None if absent, empty, not a number or not finite."""
    try:
        value: Any = dataset.get(keyword)
        number = float(value[0] if isinstance(value, (list, tuple, MultiValue)) else value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return number if np.isfinite(number) else None
