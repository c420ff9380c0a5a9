"""MPEG-7 Color Layout: DCT coefficients of an 8 x 8 colour thumbnail (ISO/IEC 15938-3:2002, section 6.6).

Equal, integer by integer, to the reference software (ISO/IEC 15938-6, XM): its order of operations and its DCT
constants of seven digits are kept because both affect rounding.
"""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import Part, Parts
from cbir.images import Image

GRID = 8  # cells per row and column

_ZIGZAG = np.array(
    [
        *(0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5),
        *(12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28),
        *(35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51),
        *(58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63),
    ]
)


def _cosines() -> NDArray[np.float64]:
    """Return the orthonormal DCT matrix (8, 8) with the seven significant digits of the reference software."""
    i, k = np.mgrid[0:GRID, 0:GRID]
    exact = np.where(i == 0, np.sqrt(0.125), 0.5) * np.cos(np.pi / GRID * i * (k + 0.5))
    return np.array([[float(f"{value:.6e}") for value in row] for row in exact])


_DCT = _cosines()
_LEVELS = np.arange(256, dtype=np.float64)
_RED, _GREEN, _BLUE = 0.299 * _LEVELS, 0.587 * _LEVELS, 0.114 * _LEVELS
# first mean of a range, its level, and the means that share a level
_LUMA_STEPS = ((192, 112, 4), (160, 96, 2), (96, 32, 1), (64, 16, 2), (0, 0, 4))
_CHROMA_STEPS = ((192, 63, 64), (160, 56, 4), (144, 48, 2), (112, 16, 1), (96, 8, 2), (64, 0, 4), (0, 0, 64))
_CHROMA_OF_GREY = 128  # Cb and Cr of every grey level


class ColorLayout:
    """12 integers: 6 coefficients of Y (0..63, then 0..31), 3 of Cb and 3 of Cr (0..63, then 0..31).

    Pixels of a side under 8 are repeated eight times first, as in the reference software.
    """

    name = "color_layout"
    dimensions = 12
    parts: Parts = (Part("color_layout", 0, 12),)

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """Describe `image`: shape (12,), float32."""
        luma, blue, red = coefficients(image)
        return np.concatenate([luma[:6], blue[:3], red[:3]]).astype(np.float32)


def coefficients(image: Image) -> NDArray[np.int64]:
    """Return all quantised coefficients of Y, Cb and Cr in zig-zag order: shape (3, 64)."""
    spectrum = _transform(_cells(image)).reshape(3, GRID * GRID)[:, _ZIGZAG]
    quantised = np.empty_like(spectrum)
    quantised[0, 0] = _quantise_mean(int(spectrum[0, 0]) // 8, _LUMA_STEPS) >> 1
    for chroma in (1, 2):
        quantised[chroma, 0] = _quantise_mean(int(spectrum[chroma, 0]) // 8, _CHROMA_STEPS)
    # integer division in C truncates towards zero
    quantised[0, 1:] = _quantise_change(np.sign(spectrum[0, 1:]) * (np.abs(spectrum[0, 1:]) // 2)) >> 3
    quantised[1:, 1:] = _quantise_change(spectrum[1:, 1:]) >> 3
    return quantised


def _cells(image: Image) -> NDArray[np.int64]:
    """Return the mean Y, Cb and Cr of the 8 x 8 cells, truncated: shape (3, 8, 8), 0..255."""
    pixels = image.pixels
    for axis in (0, 1):
        if pixels.shape[axis] < GRID:
            pixels = np.repeat(pixels, GRID, axis)
    height, width = pixels.shape[:2]
    # cell of a pixel: floor(y / (height / 8)), so row i begins at ceil(i * height / 8)
    rows = -(np.arange(GRID + 1) * -height // GRID)
    columns = -(np.arange(GRID + 1) * -width // GRID)
    sums = np.full((3, GRID, GRID), _CHROMA_OF_GREY, np.int64)
    sums[1:] *= np.outer(np.diff(rows), np.diff(columns))
    for i in range(GRID):
        band = pixels[rows[i] : rows[i + 1]]
        planes = [_luma_of_grey(band)] if band.ndim == 2 else _luma_chroma(band)
        for plane, totals in zip(planes, sums, strict=False):
            by_column = cv2.reduce(plane, 0, cv2.REDUCE_SUM, dtype=cv2.CV_32S)[0]
            totals[i] = np.add.reduceat(by_column, columns[:-1], dtype=np.int64)
    return sums // np.outer(np.diff(rows), np.diff(columns))


def _luma_of_grey(band: NDArray[np.uint8]) -> Any:
    """Compute Y of a grey band: equal to `_luma_chroma` for every level, and faster than a table.

    219 v / 256 is exact in binary and is rounded to the nearest; only v = 128 is a tie. The formula rounds it down
    through its own error, so the offset is slightly below 16, too little to affect other levels.
    """
    return cv2.convertScaleAbs(band, alpha=219.0 / 256.0, beta=16.0 - 2.0**-10)


def _luma_chroma(band: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    """Compute Y, Cb and Cr of an RGB band in the reference software's order of floating-point operations."""
    red, green, blue = cv2.split(band)
    luma = _map_levels(red, _RED)
    luma += _map_levels(green, _GREEN)
    luma += _map_levels(blue, _BLUE)
    luma /= 256.0
    planes = []
    for channel, scale in ((blue, 224.0 * 0.564), (red, 224.0 * 0.713)):
        chroma = _map_levels(channel, _LEVELS / 256.0)
        chroma -= luma
        chroma *= scale
        chroma += 128.5
        planes.append(chroma.astype(np.uint8))
    luma *= 219.0
    luma += 16.5
    return [luma.astype(np.uint8), *planes]


def _map_levels(channel: Any, table: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(cv2.LUT(channel, table), np.float64)


def _transform(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the 8 x 8 DCT of every plane, rows first, each value floor(s + 0.499999): shape (3, 8, 8).

    Reducing the first axis adds the terms in the order of a C loop; a matrix product would not.
    """
    by_row = np.add.reduce(_DCT.T[:, None, None, :] * cells.transpose(2, 0, 1)[:, :, :, None])
    by_column = np.add.reduce(_DCT.T[:, None, :, None] * by_row.transpose(1, 0, 2)[:, :, None, :])
    return np.asarray(np.floor(by_column + 0.499999), np.int64)


def _quantise_mean(value: int, steps: tuple[tuple[int, int, int], ...]) -> int:
    start, level, width = next(step for step in steps if value >= step[0])
    return level + (value - start) // width


def _quantise_change(values: NDArray[np.int64]) -> NDArray[np.int64]:
    values = np.clip(values, -256, 239)
    size = np.abs(values)
    size = np.where(size > 127, 64 + size // 4, np.where(size > 63, 32 + size // 2, size))
    return np.sign(values) * size + 132
