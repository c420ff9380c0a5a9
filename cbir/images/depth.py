"""Any depth of pixels to eight bits."""

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images.image import Image

TWELVE_BITS = 4095
LOWEST, HIGHEST = 1.0, 99.0  # percentiles that become black and white where nothing says what should


def from_array(array: NDArray[np.generic], source: str = "array") -> Image:
    """An image of an array (height, width), or with 1, 3 (RGB) or 4 (RGBA, alpha dropped onto black) channels.

    See `to_bytes` for what becomes of its values. Raises UnreadableImage for other shapes, no pixels, NaN.
    """
    array = np.asarray(array)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise UnreadableImage(f"{source} has shape {array.shape}; (height, width[, 1, 3 or 4]) is an image")
    if array.size == 0:
        raise UnreadableImage(f"{source} has no pixels")
    pixels = to_bytes(array, source)
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        pixels = onto_black(pixels)
    return Image(simplest(pixels), source)


def to_bytes(array: NDArray[np.generic], name: str) -> NDArray[np.uint8]:
    """Values of any real type as uint8, same shape.

    bool: 0 and 255. uint8: as it is. uint16: full range, v / 257 rounded, so that bytes times 257 give themselves
    back; where no value is above 4095 they are twelve bits in sixteen and scaled by 255 / 4095. Floats within
    [0, 1]: times 255. Other integers that fit a byte: as they are. All else: the 1st to the 99th percentile.
    Raises UnreadableImage for NaN, infinity and types that are no numbers.
    """
    kind = array.dtype.kind
    if kind not in "buif":
        raise UnreadableImage(f"{name} has values of type {array.dtype}, which are no grey values")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array, np.uint8)
    if kind == "b":
        return np.where(array, 255, 0).astype(np.uint8)
    if array.dtype == np.uint16:
        wide = array.astype(np.uint32)
        if int(wide.max()) <= TWELVE_BITS:
            return ((wide * 255 + TWELVE_BITS // 2) // TWELVE_BITS).astype(np.uint8)
        return ((wide + 128) // 257).astype(np.uint8)
    if kind == "f" and not np.isfinite(array).all():
        raise UnreadableImage(f"{name} has values that are not finite numbers; replace them and try again")
    least, greatest = float(array.min()), float(array.max())
    if kind == "f" and least >= 0.0 and greatest <= 1.0:
        return np.rint(array.astype(np.float64) * 255.0).astype(np.uint8)
    if kind != "f" and least >= 0 and greatest <= 255:
        return array.astype(np.uint8)
    return stretch(array.astype(np.float64))


def stretch(values: NDArray[np.floating], visible: NDArray[np.bool_] | None = None) -> NDArray[np.uint8]:
    """Values (height, width, ...) with their 1st percentile made black and their 99th white.

    visible: what the percentiles are taken over. A range of no width is widened to all values; flat images are black.
    """
    chosen = values if visible is None or not visible.any() else values[visible]
    black, white = np.percentile(chosen, (LOWEST, HIGHEST))
    if black >= white:
        black, white = float(chosen.min()), float(chosen.max())
    if black >= white:
        return np.where(values > black, 255, 0).astype(np.uint8)
    return clip((values - black) * (255.0 / (white - black)))


def clip(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Values rounded to bytes; below 0 becomes 0, above 255 becomes 255."""
    return np.rint(np.clip(values, 0.0, 255.0)).astype(np.uint8)


def onto_black(rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(height, width, 4) uint8 with straight alpha laid onto black, (height, width, 3)."""
    colour, alpha = rgba[:, :, :3].astype(np.uint16), rgba[:, :, 3:].astype(np.uint16)
    return ((colour * alpha + 127) // 255).astype(np.uint8)


def simplest(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(height, width) where three channels are all alike, else what was given; C-contiguous."""
    if pixels.ndim == 3:
        few = pixels[::16, ::16]
        if _alike(few) and _alike(pixels):
            pixels = cv2.extractChannel(np.ascontiguousarray(pixels), 0)
    return np.ascontiguousarray(pixels)


def _alike(pixels: NDArray[np.uint8]) -> bool:
    first = pixels[:, :, 0]
    return bool((first == pixels[:, :, 1]).all() and (first == pixels[:, :, 2]).all())
