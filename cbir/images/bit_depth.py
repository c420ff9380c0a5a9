"""Conversion of samples of any depth to eight bits."""

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import UnreadableImage
from cbir.images.image import BLOCK_PIXELS, Image, ScaledValues, Window, row_blocks

Samples = NDArray[np.generic]
Pixels = NDArray[np.uint8]

TWELVE_BITS, HIGHEST_NUMBER = 4095, 65535
LOWEST, HIGHEST = 1, 99  # percentiles that become black and white if there is no window


def from_array(array: ArrayLike, source: str = "array") -> Image:
    """Convert an array of samples to an Image.

    `array` is (height, width) or (height, width, 1) grey, (height, width, 3) RGB or (height, width, 4) RGBA, of

    - bool: False is 0, True is 255;
    - uint8: unchanged (the Image shares its memory if possible);
    - uint16: v / 257 rounded, the inverse of v * 257; but v * 255 / 4095 rounded if no value is above 4095
      (twelve bits stored in sixteen);
    - other integers: unchanged if all are in 0..255, else by the percentile window;
    - float: times 255, rounded, if all are in [0, 1], else by the percentile window.

    The percentile window maps the 1st percentile of all samples to 0 and the 99th to 255, linearly, and clips; if
    the two are equal, the minimum and maximum replace them, and a flat image is 0. Alpha (0..255, 0..65535 or
    [0, 1], by type) blends onto black. Three equal channels become one. `source` names the image in messages.

    Raises UnreadableImage for other shapes and types, no samples, and NaN or infinite samples.
    """
    try:
        return Image(to_pixels(np.asarray(array)), source)
    except UnreadableImage as error:
        raise UnreadableImage(f"{source} {error}") from error
    except ValueError as error:  # rows of different lengths
        raise UnreadableImage(
            f"{source} is not an array of numbers; give 1, 3 or 4 values per pixel"
        ) from error


def to_pixels(samples: Samples, inverted: bool = False) -> Pixels:
    """Convert grey, RGB or RGBA samples to pixels as Image holds them, by the rules of `from_array`.

    inverted: colours, but not alpha, are those of a negative.
    """
    if samples.ndim == 3 and samples.shape[2] == 1:
        samples = samples[:, :, 0]
    if samples.ndim != 2 and not (samples.ndim == 3 and samples.shape[2] in (3, 4)):
        raise UnreadableImage(
            f"has shape {samples.shape}; give (height, width) with 1, 3 or 4 values per pixel"
        )
    if samples.size == 0:
        raise UnreadableImage(f"has no pixels, its shape is {samples.shape}; give at least one")
    has_alpha = samples.ndim == 3 and samples.shape[2] == 4
    colours = to_bytes(samples[:, :, :3] if has_alpha else samples)
    colours = 255 - colours if inverted else colours
    return drop_equal_channels(_onto_black(colours, _alpha(samples[:, :, 3])) if has_alpha else colours)


def to_bytes(samples: Samples) -> Pixels:
    """Convert samples of any real type and shape to uint8 of the same shape, by the rules of `from_array`."""
    kind = samples.dtype.kind
    if kind not in "buif":
        raise UnreadableImage(f"has values of type {samples.dtype}; give integers or floats")
    if kind == "b":
        return samples.astype(np.uint8) * np.uint8(255)
    if kind == "u" and samples.dtype.itemsize == 1:
        return samples.astype(np.uint8, copy=False)
    if kind == "u" and samples.dtype.itemsize == 2:
        return _sixteen_bits(samples.astype(np.uint16, copy=False))  # in native byte order
    if kind == "f":
        return _floats(samples)
    if samples.min() >= 0 and samples.max() <= 255:
        return samples.astype(np.uint8)
    window = percentiles(samples)
    return _in_blocks(samples, lambda values: apply_window(values, *window))


def deep_values(samples: Samples, inverted: bool = False) -> ScaledValues | None:
    """Return grey samples of 16 bits as values; None for others."""
    if samples.ndim == 3 and samples.shape[2] == 1:
        samples = samples[:, :, 0]
    kind, size = samples.dtype.kind, samples.dtype.itemsize
    if samples.ndim != 2 or kind not in "iu" or size != 2:
        return None
    return ScaledValues(
        samples.astype(f"{kind}{size}", copy=False), inverted=inverted
    )  # in native byte order


def shown_range(numbers: NDArray[np.integer]) -> Window:
    """Return which values `to_bytes` makes 0 and 255 of whole numbers of 8 or 16 bits."""
    if numbers.dtype == np.uint16:
        return 0, TWELVE_BITS if numbers.max() <= TWELVE_BITS else HIGHEST_NUMBER
    if numbers.dtype == np.uint8 or (numbers.min() >= 0 and numbers.max() <= 255):
        return 0, 255
    return percentiles(numbers)


def _sixteen_bits(samples: NDArray[np.uint16]) -> Pixels:
    scale = 255 / TWELVE_BITS if samples.max() <= TWELVE_BITS else 1 / 257
    return np.asarray(cv2.convertScaleAbs(samples, alpha=scale), np.uint8).reshape(samples.shape)


def _in_blocks(samples: Samples, convert: Callable[[NDArray[np.float64]], Pixels]) -> Pixels:
    """Convert samples to float64 and on to pixels some rows at a time: all would take eight times the memory."""
    if samples.size <= BLOCK_PIXELS or samples.ndim < 2:
        return convert(samples.astype(np.float64))
    pixels = np.empty(samples.shape, np.uint8)
    for rows in row_blocks(len(samples), samples[0].size):
        pixels[rows] = convert(samples[rows].astype(np.float64))
    return pixels


def _floats(samples: Samples) -> Pixels:
    if samples.dtype.itemsize > 8:
        samples = samples.astype(np.float64)
    minimum, maximum = samples.min(), samples.max()
    if not (np.isfinite(minimum) and np.isfinite(maximum)):  # NaN if any sample is NaN
        raise UnreadableImage("has values that are not finite; replace NaN and infinity")
    if minimum >= 0 and maximum <= 1:
        return _in_blocks(samples, lambda values: np.rint(values * 255).astype(np.uint8))
    window = percentiles(samples)
    return _in_blocks(samples, lambda values: apply_window(values, *window))


def percentiles(values: Samples) -> Window:
    """Return the 1st and 99th percentile of finite values of any shape, or minimum and maximum if they are equal.

    They are those of float64, bit for bit as numpy interpolates them, without such a copy of all values.
    """
    position = (values.size - 1) * (np.array((LOWEST, HIGHEST)) / 100)
    before = np.floor(position).astype(np.int64)
    after = np.minimum(before + 1, values.size - 1)
    ordered = np.partition(values, [*before, *after], axis=None)
    low, high = _interpolate(ordered[before], ordered[after], position - before)
    return (low, high) if low < high < np.inf else (float(values.min()), float(values.max()))


def weighted_percentiles(values: NDArray[np.float64], counts: NDArray[np.int64]) -> Window:
    """Return `percentiles` of `values` (n,), each repeated as often as `counts` (n,) says.

    At least one count is above 0. Interpolates linearly, bit for bit as numpy does, in a fraction of the time.
    """
    values, counts = values[counts > 0], counts[counts > 0]
    order = np.argsort(values)
    values, cumulative = values[order], np.cumsum(counts[order])
    position = (cumulative[-1] - 1) * (np.array((LOWEST, HIGHEST)) / 100)
    before = np.floor(position)
    lower = values[np.searchsorted(cumulative, before, "right")]
    upper = values[np.searchsorted(cumulative, np.minimum(before + 1, cumulative[-1] - 1), "right")]
    low, high = _interpolate(lower, upper, position - before)
    return (low, high) if low < high < np.inf else (float(values[0]), float(values[-1]))


def _interpolate(lower: Samples, upper: Samples, fraction: NDArray[np.float64]) -> Window:
    """Return the values between two `lower` and two `upper` ones."""
    start, end = lower.astype(np.float64), upper.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # the difference of two huge values
        step = end - start
        low, high = np.where(fraction < 0.5, start + step * fraction, end - step * (1 - fraction))
    return float(low), float(high)


def apply_window(values: NDArray[np.float64], low: float, high: float) -> Pixels:
    """Map `values` linearly to uint8, clipped and rounded.

    Parameters
    ----------
    values : float64 array of any shape
        Finite values.
    low, high : float
        Values that become 0 and 255; if they are equal, greater values become 255 and all others 0.
    """
    if not low < high:
        return np.where(values > low, np.uint8(255), np.uint8(0))
    half = 1.0 if high - low < np.inf else 0.5  # the difference overflows
    scaled = (np.clip(values, low, high) * half - low * half) / (high * half - low * half)
    return np.rint(scaled * 255).astype(np.uint8)


def _alpha(alpha: Samples) -> Pixels:
    if alpha.dtype == np.uint8:
        return to_bytes(alpha)
    if alpha.dtype.kind == "u" and alpha.dtype.itemsize == 2:
        return np.rint(alpha.astype(np.float64) / 257).astype(np.uint8)
    maximum = 1 if alpha.dtype.kind == "f" else 255
    values = alpha.astype(np.float64)
    if not (values.min() >= 0 and values.max() <= maximum):
        raise UnreadableImage(
            f"has alpha (the fourth value) outside 0..{maximum}; correct it or leave it out"
        )
    return to_bytes(alpha)


def _onto_black(pixels: Pixels, alpha: Pixels) -> Pixels:
    blended = np.empty(pixels.shape, np.uint8)
    for rows in row_blocks(*alpha.shape):
        product = pixels[rows].astype(np.uint16) * alpha[rows, :, np.newaxis]
        blended[rows] = (product + np.uint16(127)) // np.uint16(255)
    return blended


def drop_equal_channels(pixels: Pixels) -> Pixels:
    """Reduce three equal channels to (height, width); return other pixels unchanged; C-contiguous."""
    sample = pixels[::16, ::16]
    if pixels.ndim == 3 and (sample == sample[:, :, :1]).all():  # most colour images end here
        blocks = (pixels[rows] for rows in row_blocks(*pixels.shape[:2]))
        if all(map(_has_equal_channels, blocks)):
            return np.ascontiguousarray(pixels[:, :, 0])
    return np.ascontiguousarray(pixels)


def _has_equal_channels(pixels: Pixels) -> bool:
    red, green, blue = cv2.split(pixels)
    return cv2.norm(red, green, cv2.NORM_INF) == 0 and cv2.norm(green, blue, cv2.NORM_INF) == 0
