"""Parts and scaled copies of images, windows of maps, pixel values for viewers, and encoding as PNG and JPEG."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.images.bit_depth import Pixels, drop_equal_channels, shown_range
from cbir.images.image import Image, ScaledValues, Windowing
from cbir.images.slice_order import SlicePlace

Region = tuple[int, int, int, int]
SIDE = 256  # longest side in pixels
JPEG_QUALITY = 88
Integer = TypeVar("Integer", bound=np.integer[Any])


def crop(image: Image, region: Region) -> Image:
    """Cut `region` out of `image`: x, y (from 0), width and height in pixels.

    Raises InvalidInput if the region is empty or exceeds the image.
    """
    check_region(region, image.width, image.height)
    x, y, width, height = region
    return replace(image, pixels=drop_equal_channels(image.pixels[y : y + height, x : x + width]))


def check_region(region: Region, image_width: int, image_height: int) -> None:
    """Raise InvalidInput if a region is empty or exceeds its image.

    Parameters
    ----------
    region : tuple of int
        x, y (from 0), width and height in pixels.
    image_width, image_height : int
        Size of the image in pixels.
    """
    x, y, width, height = region
    if width < 1 or height < 1 or x < 0 or y < 0 or x + width > image_width or y + height > image_height:
        raise InvalidInput(
            f"the region {x},{y},{width},{height} is not inside the image, which is {image_width} pixels wide "
            f"and {image_height} high; give x,y,width,height in its pixels"
        )


def pad_resize(image: Image, side: int) -> NDArray[np.uint8]:
    """Scale the longer side of the grey image to `side` and pad the shorter with black: (side, side) uint8."""
    scale = side / max(image.height, image.width)
    width, height = (max(1, round(length * scale)) for length in (image.width, image.height))
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    small = cv2.resize(image.grey, (width, height), interpolation=interpolation)
    padded = np.zeros((side, side), np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    padded[top : top + height, left : left + width] = small
    return padded


def make_thumbnail(image: Image) -> bytes:
    """Encode `image` as a JPEG with a longest side of at most 256 pixels."""
    return encode_image(shrink(image.pixels, SIDE), ".jpg", [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])


def encode_view(image: Image, side: int) -> bytes:
    """Encode `image` as a PNG, little compressed, with a longest side of at most `side` pixels."""
    return encode_image(shrink(image.pixels, side), ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1])


def shrink(pixels: NDArray[Integer], side: int) -> NDArray[Integer]:
    """Scale pixels down to a longest side of at most `side`, each the mean of those that it stands for.

    Leaves smaller ones unchanged.
    """
    height, width = pixels.shape[:2]
    longer = max(height, width)
    if longer <= side:
        return pixels
    size = max(1, round(width * side / longer)), max(1, round(height * side / longer))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), pixels.dtype)


def encode_image(pixels: Pixels, kind: str, options: Sequence[int] = ()) -> bytes:
    """Encode grey or RGB pixels.

    Parameters
    ----------
    pixels : (height, width) or (height, width, 3) uint8
        Grey or RGB.
    kind : str
        ".png" or ".jpg".
    options : sequence of int
        Flags and values of `cv2.imencode`.
    """
    ordered = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    _, file = cv2.imencode(kind, ordered, options)
    return bytes(file)


def window_means(height: int, width: int, grid: int, window: float) -> NDArray[np.float32]:
    """Return weights that average a map over grid x grid evenly spaced windows.

    Parameters
    ----------
    height, width : int
        Of the map, in places.
    grid : int
        Windows per side, at least 1.
    window : float
        Length of a window as a share of the map's side, above 0 and at most 1.

    Returns
    -------
    (grid * grid, height * width) float32
        Each row is a window, from the top left: 1 / its places inside, 0 outside.
    """
    return np.kron(_windows(height, grid, window), _windows(width, grid, window))


def _windows(side: int, grid: int, window: float) -> NDArray[np.float32]:
    """Return weights (grid, side) of evenly spaced windows: 1 / length inside, 0 outside."""
    length = max(1, round(side * window))
    weights = np.zeros((grid, side), np.float32)
    for row, start in enumerate(np.linspace(0, side - length, grid)):
        weights[row, round(start) : round(start) + length] = 1 / length
    return weights


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
        numbers = shrink(scaled.numbers[y : y + height, x : x + width], side)
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
