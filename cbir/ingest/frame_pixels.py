"""Pixel values of a frame for viewers that set the window themselves, as a task of decoder processes."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.images import Image, Region, check_region
from cbir.images.bit_depth import shown_range
from cbir.images.image import ScaledValues, Windowing
from cbir.images.slice_order import SlicePlace


@dataclass(frozen=True)
class FramePixels:
    """Pixel values of a frame or a region of it, and what is needed to show and to measure them.

    data: rows from the top, little-endian. type: uint8, int16 or uint16 for grey, rgb8 for colours. width, height: of
    the data. slope, intercept: a value is slope * number + intercept. image_width, image_height: of the frame in its
    file. region: its part that the data show. exact: windows go from center - width / 2 to center + width / 2, as for
    NIfTI; else they are those of DICOM, LINEAR. The others are those of `Image`.
    """

    data: bytes
    type: str
    width: int
    height: int
    slope: float
    intercept: float
    unit: str
    inverted: bool
    linear: bool
    exact: bool
    photometric: str
    windowing: Windowing | None
    image_width: int
    image_height: int
    region: Region
    spacing: tuple[float, float] | None
    modality: str
    frame: int | None
    frames: int
    place: SlicePlace | None

    @classmethod
    def of_image(cls, image: Image, side: int, region: Region | None = None) -> "FramePixels":
        """Return the pixel values of an image that was decoded with its values.

        Parameters
        ----------
        image : Image
            The whole frame.
        side : int
            Longest side of the data; larger frames are reduced.
        region : tuple of int, optional
            Part of the frame: x, y, width, height.
        """
        x, y, width, height = region = region or (0, 0, image.width, image.height)
        check_region(region, image.width, image.height)
        scaled = image.values or ScaledValues(image.pixels)
        numbers = _reduced(scaled.numbers[y : y + height, x : x + width], side)
        is_colour = numbers.ndim == 3
        little = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
        default = "RGB" if is_colour else "MONOCHROME1" if scaled.inverted else "MONOCHROME2"
        return cls(
            data=little.tobytes(),
            type="rgb8" if is_colour else str(numbers.dtype),
            width=numbers.shape[1],
            height=numbers.shape[0],
            slope=scaled.slope,
            intercept=scaled.intercept,
            unit=scaled.unit,
            inverted=scaled.inverted,
            linear=scaled.linear,
            exact=image.format == "nifti",
            photometric=default,
            windowing=None if is_colour else image.windowing or _as_shown(scaled.numbers),
            image_width=image.width,
            image_height=image.height,
            region=region,
            spacing=image.spacing,
            modality=image.dicom.modality if image.dicom else "",
            frame=image.frame,
            frames=image.frames,
            place=image.location,
        )


def _as_shown(numbers: NDArray[np.integer]) -> Windowing:
    """Return the window that shows values without one of their own as `Image.pixels` does."""
    low, high = shown_range(numbers)
    least, greatest = (0, 255) if numbers.dtype == np.uint8 else (numbers.min(), numbers.max())
    width = high - low + 1  # LINEAR: the first value is 0, the last 255
    return Windowing(low + width / 2, width, float(least), float(greatest))


def _reduced(numbers: NDArray[np.integer], side: int) -> NDArray[np.integer]:
    """Scale numbers down to a longest side of at most `side`, each the mean of those that it stands for."""
    height, width = numbers.shape[:2]
    longer = max(height, width)
    if longer <= side:
        return numbers
    size = max(1, round(width * side / longer)), max(1, round(height * side / longer))
    return np.asarray(cv2.resize(numbers, size, interpolation=cv2.INTER_AREA), numbers.dtype)
