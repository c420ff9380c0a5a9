"""Tamura coarseness: size of the structures around every pixel (Tamura, Mori and Yamawaki 1978)."""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.tiles import Scratch, tiles

LARGEST = 32  # 2^5, the side of the largest window
_EXACT_16 = 16  # sums of windows up to this side fit 16 bits: 16 * 16 * 255 = 65280
_scratch = Scratch()


def best_sizes(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the window side 2^k, k = 0..5, that fits each pixel best: shape of `grey`, uint8, 1 to 32.

    E_k(x, y) is the larger of |mean right - mean left| and |mean below - mean above| of two 2^k x 2^k windows that
    meet at the pixel (which belongs to the right or lower one, and to the middle in their other direction); the best
    k has the largest E_k, the smallest such k among equals. Border pixels are replicated.
    """
    padded = cv2.copyMakeBorder(grey, LARGEST, LARGEST, LARGEST, LARGEST, cv2.BORDER_REPLICATE)
    sizes = np.ones_like(grey)
    for rows, columns in tiles(*grey.shape):
        bottom, right = rows.stop + 2 * LARGEST, columns.stop + 2 * LARGEST
        _update_best_sizes(padded[rows.start : bottom, columns.start : right], sizes[rows, columns])
    return sizes


def _update_best_sizes(padded: NDArray[Any], sizes: NDArray[np.uint8]) -> None:
    """Replace the initial 1 in `sizes` by the best window sides; `padded` has LARGEST more pixels on every side.

    Computes with sums instead of means, which is exact: E_k times the area 4^k. Only the largest windows add sums of
    16 x 16 rounded to quarters, an error of less than 0.02 grey levels.
    """
    sums = _scratch.copy("sums", padded, np.uint16)
    best = _scratch.copy("best", _strength(padded, 1, sizes.shape), np.uint16)
    larger = _scratch.array("larger", sizes.shape, np.uint8)
    side = 1
    while side < LARGEST:
        if side == _EXACT_16:
            np.right_shift(sums, 2, out=sums)  # quarters, to the scale of `best`
        else:
            np.multiply(best, 4, out=best)  # to the scale of the next area
        sums = _doubled(sums, side)
        side *= 2
        strength = _strength(sums, side, sizes.shape)
        cv2.compare(strength, best, cv2.CMP_GT, larger)
        np.bitwise_and(larger, side, out=larger)
        np.maximum(sizes, larger, out=sizes)
        if side < LARGEST:
            np.maximum(best, strength, out=best)


def _strength(sums: NDArray[Any], side: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """Compute E_k times 4^k for `shape` pixels; sums[i, j] is the sum of the window with top left corner (i, j)."""
    height, width = shape
    middle = LARGEST - side // 2
    rows, columns = slice(middle, middle + height), slice(middle, middle + width)
    right = sums[rows, LARGEST : LARGEST + width]
    left = sums[rows, LARGEST - side : LARGEST - side + width]
    below = sums[LARGEST : LARGEST + height, columns]
    above = sums[LARGEST - side : LARGEST - side + height, columns]
    horizontal = cv2.absdiff(right, left, _scratch.array("horizontal", shape, sums.dtype))
    vertical = cv2.absdiff(below, above, _scratch.array("vertical", shape, sums.dtype))
    return np.maximum(horizontal, vertical, out=horizontal)


def _doubled(sums: NDArray[Any], side: int) -> NDArray[Any]:
    """Return the sums of windows of twice the side."""
    height, width = sums.shape
    two = _scratch.array("two", (height, width - side), sums.dtype)
    cv2.add(sums[:, :-side], sums[:, side:], two)
    four = _scratch.array("sums", (height - side, width - side), sums.dtype)
    return cv2.add(two[:-side], two[side:], four)
