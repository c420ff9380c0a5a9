"""Any depth of samples to eight bits."""

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import UnreadableImage
from cbir.images.image import Image

Samples = NDArray[np.generic]
Pixels = NDArray[np.uint8]

TWELVE_BITS = 4095
LOWEST, HIGHEST = 1, 99  # percentiles that become black and white where nothing says what should


def from_array(array: ArrayLike, source: str = "array") -> Image:
    """An array of samples as an Image.

    array: (height, width), (height, width, 1) grey, (height, width, 3) RGB or (height, width, 4) RGB and alpha, of

    - bool: False is 0, True is 255;
    - uint8: as it is (the Image shares its memory where it can);
    - uint16: full range, v / 257 rounded, so that bytes times 257 give themselves back; but where no value is above
      4095 they are twelve bits in sixteen, and it is v * 255 / 4095 rounded;
    - other integers: as they are where all lie in 0..255, else by the percentile window;
    - float: times 255, rounded, where all lie in [0, 1], else by the percentile window.

    The percentile window maps the 1st percentile of all samples to 0 and the 99th to 255, linearly, and clips; where
    the two are equal, the least and the greatest sample take their place, and a flat image is 0.
    Alpha (0..255, 0..65535 or [0, 1], by type) lays the colours onto black. Three equal channels become one.

    Raises UnreadableImage for other shapes and types, no samples, and NaN or infinite samples.
    """
    try:
        return Image(to_pixels(np.asarray(array)), source)
    except UnreadableImage as error:
        raise UnreadableImage(f"{source} {error}") from error
    except ValueError as error:  # rows of different lengths
        raise UnreadableImage(f"{source} is no array of numbers; give one value a pixel") from error


def to_pixels(samples: Samples) -> Pixels:
    """Grey, RGB or RGB and alpha to pixels as Image holds them; rules and refusals as in `from_array`."""
    if samples.ndim == 3 and samples.shape[2] == 1:
        samples = samples[:, :, 0]
    if samples.ndim != 2 and not (samples.ndim == 3 and samples.shape[2] in (3, 4)):
        raise UnreadableImage(
            f"has shape {samples.shape}; give (height, width) with 1, 3 or 4 values a pixel"
        )
    if samples.size == 0:
        raise UnreadableImage(f"has no pixels, its shape is {samples.shape}; give at least one")
    if samples.ndim == 2 or samples.shape[2] == 3:
        return drop_equal_channels(to_bytes(samples))
    return drop_equal_channels(_onto_black(to_bytes(samples[:, :, :3]), _alpha(samples[:, :, 3])))


def to_bytes(samples: Samples) -> Pixels:
    """Samples of any real type and shape as uint8, same shape; rules and refusals as in `from_array`."""
    kind = samples.dtype.kind
    if kind not in "buif":
        raise UnreadableImage(
            f"has values of type {samples.dtype}, no grey values; give whole numbers or floats"
        )
    if kind == "b":
        return samples.astype(np.uint8) * np.uint8(255)
    if kind == "u" and samples.dtype.itemsize == 1:
        return samples.astype(np.uint8, copy=False)
    if kind == "u" and samples.dtype.itemsize == 2:
        return _sixteen_bits(samples.astype(np.uint16, copy=False))  # in this machine's byte order
    if kind == "f":
        return _floats(samples.astype(np.float64))
    values = samples.astype(np.float64)
    if values.min() >= 0 and values.max() <= 255:
        return samples.astype(np.uint8)
    return apply_window(values, *percentiles(values))


def _sixteen_bits(samples: NDArray[np.uint16]) -> Pixels:
    scale = 255 / TWELVE_BITS if samples.max() <= TWELVE_BITS else 1 / 257
    return np.asarray(cv2.convertScaleAbs(samples, alpha=scale), np.uint8).reshape(samples.shape)


def _floats(samples: NDArray[np.float64]) -> Pixels:
    least, greatest = samples.min(), samples.max()
    if not (np.isfinite(least) and np.isfinite(greatest)):  # both are NaN where one sample is
        raise UnreadableImage("has values that are not finite; replace NaN and infinity by numbers")
    if least >= 0 and greatest <= 1:
        return np.rint(samples * 255).astype(np.uint8)
    return apply_window(samples, *percentiles(samples))


def percentiles(values: NDArray[np.float64]) -> tuple[float, float]:
    """The 1st and 99th percentile of finite values of any shape; the least and the greatest where they are equal."""
    with np.errstate(over="ignore", invalid="ignore"):  # the difference of two huge values
        low, high = np.percentile(values, (LOWEST, HIGHEST))
    return (float(low), float(high)) if low < high < np.inf else (float(values.min()), float(values.max()))


def weighted_percentiles(values: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, float]:
    """As `percentiles` of each finite value as many times as its count says, in a fraction of the time.

    values, counts: (n,), at least one count above 0. Interpolated linearly, to the last bit as numpy does.
    """
    values, counts = values[counts > 0], counts[counts > 0]
    order = np.argsort(values)
    values, until = values[order], np.cumsum(counts[order])
    place = (until[-1] - 1) * (np.array((LOWEST, HIGHEST)) / 100)
    before = np.floor(place)
    lower = values[np.searchsorted(until, before, "right")]
    upper = values[np.searchsorted(until, np.minimum(before + 1, until[-1] - 1), "right")]
    part = place - before
    with np.errstate(over="ignore", invalid="ignore"):  # the difference of two huge values
        low, high = np.where(part < 0.5, lower + (upper - lower) * part, upper - (upper - lower) * (1 - part))
    return (float(low), float(high)) if low < high < np.inf else (float(values[0]), float(values[-1]))


def apply_window(values: NDArray[np.float64], low: float, high: float) -> Pixels:
    """Map low to 0 and high to 255, linearly, clipped and rounded; where they are equal, what is greater is 255."""
    if not low < high:
        return np.where(values > low, np.uint8(255), np.uint8(0))
    half = 1.0 if high - low < np.inf else 0.5  # a range as wide as all numbers
    part = (np.clip(values, low, high) * half - low * half) / (high * half - low * half)
    return np.rint(part * 255).astype(np.uint8)


def _alpha(alpha: Samples) -> Pixels:
    if alpha.dtype.kind == "u" and alpha.dtype.itemsize == 2:
        return np.rint(alpha.astype(np.float64) / 257).astype(np.uint8)
    greatest = 1 if alpha.dtype.kind == "f" else 255
    values = alpha.astype(np.float64)
    if not (values.min() >= 0 and values.max() <= greatest):
        raise UnreadableImage(f"has alpha (the fourth value) outside 0..{greatest}; leave it out or mend it")
    return to_bytes(alpha)


def _onto_black(pixels: Pixels, alpha: Pixels) -> Pixels:
    product = pixels.astype(np.uint16) * alpha[:, :, np.newaxis]
    return ((product + np.uint16(127)) // np.uint16(255)).astype(np.uint8)


def drop_equal_channels(pixels: Pixels) -> Pixels:
    """(height, width) where three channels are all alike, else what was given; C-contiguous."""
    if pixels.ndim == 3 and _alike(pixels[::16, ::16]):  # most colour pictures end here
        red, green, blue = cv2.split(pixels)
        if cv2.norm(red, green, cv2.NORM_INF) == 0 and cv2.norm(green, blue, cv2.NORM_INF) == 0:
            return np.asarray(red, np.uint8)
    return np.ascontiguousarray(pixels)


def _alike(pixels: Pixels) -> bool:
    first = pixels[:, :, 0]
    return bool((first == pixels[:, :, 1]).all() and (first == pixels[:, :, 2]).all())
