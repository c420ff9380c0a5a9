"""What an image is once it is decoded."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class DicomHeader:
    """What is kept of a DICOM data set (PS3.3); empty strings where it does not say.

    patient_id never leaves the process: it is hashed with the collection's key and then dropped. study_date is kept
    where somebody asks for it, shifted. secondary_capture: a picture of a screen or a film (A.8), not of a modality.
    """

    study: str = ""
    series: str = ""
    instance: str = ""
    modality: str = ""
    body_part: str = ""
    view_position: str = ""
    laterality: str = ""
    burned_in: bool = False
    patient_id: str = field(default="", repr=False)
    photometric: str = ""
    secondary_capture: bool = False
    study_date: str = field(default="", repr=False)
    sop_class: str = ""


class Windowing(NamedTuple):
    """How the grey values of a DICOM frame became pixels, in units of the modality (PS3.3, C.11.2.1.2).

    center, width: the window, LINEAR; where a table was applied, the one from the least to the greatest value.
    least, greatest: the values the frame has.
    """

    center: float
    width: float
    least: float
    greatest: float


@dataclass(frozen=True, eq=False)
class Image:
    """One picture.

    pixels: uint8, C-contiguous, (height, width) grey or (height, width, 3) RGB; a colour file whose channels
        are all alike is grey.
    source: the name it was read from.
    format: "png", "jpeg", "tiff", "bmp", "dicom" or "array".
    frame: number of the frame or page, from 1; None for a file with one.
    windowing: of grey DICOM frames.
    """

    pixels: NDArray[np.uint8]
    source: str = ""
    format: str = "array"
    frame: int | None = None
    dicom: DicomHeader | None = None
    windowing: Windowing | None = None

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @cached_property
    def grey(self) -> NDArray[np.uint8]:
        """(height, width) uint8: (R + G + B) / 3 truncated; a grey image is its own grey."""
        if self.pixels.ndim == 2:
            return self.pixels
        total = self.pixels.sum(axis=2, dtype=np.uint16)
        return (total // 3).astype(np.uint8)

    @cached_property
    def content_hash(self) -> str:
        """32 hexadecimal digits of shape and pixels (BLAKE2b): equal for equal pictures whatever the file."""
        digest = hashlib.blake2b(repr(self.pixels.shape).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.pixels).data)
        return digest.hexdigest()
