"""Tamura directionality and line-likeness: edge directions and their continuation (Tamura, Mori, Yamawaki 1978)."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.tiles import Region, Scratch, region_histograms, tiles

BINS = 16  # directions over pi
THRESHOLD = 12  # of (|dH| + |dV|) / 2
DISTANCE = 4  # pixels between the members of a pair
DIFFERENCES = BINS // 2 + 1  # circular differences of two directions, 0..8 bins
_STEEPEST = 3 * 255  # largest |dH| or |dV|
_NONE = 255  # direction of a pixel that is not on an edge
_RUN = 1 << 17  # pixels per pass
# histograms of long runs of one value are slow: pixels that are not on an edge are spread over 160..255
_SPREAD = np.resize(np.arange(BINS * (DIFFERENCES + 1), 256, dtype=np.uint8), _RUN)
_BOX, _DIFFERENCE = np.ones(3, np.float32), np.array([-1, 0, 1], np.float32)
_scratch = Scratch()


@cache
def _direction_table() -> NDArray[np.uint8]:
    """Return the direction of (dV, dH), both from -765: shape (1531, 1531), 0..15, or 255 below the threshold.

    Bin k has the angles theta = atan(dV / dH) + pi / 2 with (2k - 1) pi / 2n <= theta < (2k + 1) pi / 2n, as in the
    paper: horizontal, vertical and diagonal edges are in the middle of their bins.
    """
    steps = np.arange(-_STEEPEST, _STEEPEST + 1)
    theta = np.arctan2(steps[:, None], steps) + np.pi / 2
    table = (np.floor(theta * BINS / np.pi + 0.5) % BINS).astype(np.uint8)
    table[np.abs(steps[:, None]) + np.abs(steps) < 2 * THRESHOLD] = _NONE
    return table


_ANGLES = np.arange(BINS) * np.pi / BINS
_STEPS = np.rint(DISTANCE * np.stack([np.sin(_ANGLES), np.cos(_ANGLES)], axis=1)).astype(int).tolist()


def direction_counts(grey: NDArray[np.uint8], regions: Sequence[Region]) -> NDArray[np.float64]:
    """Count edge pixels by region, direction and continuation of the edge: shape (regions, 16, 10).

    Last axis: the pixel 4 further along the edge has a direction 0..8 bins away, or (9) is not on an edge or outside
    `grey`.
    """
    height, width = grey.shape
    # the border counts as "no edge"; the last row lets the last pixel look 4 to its right
    bordered = np.full((height + DISTANCE + 1, width + 2 * DISTANCE), _NONE, np.uint8)
    directions = bordered[:height, DISTANCE:-DISTANCE]
    padded = cv2.copyMakeBorder(grey, 1, 1, 1, 1, cv2.BORDER_REPLICATE)
    for rows, columns in tiles(height, width):
        surroundings = padded[rows.start : rows.stop + 2, columns.start : columns.stop + 2]
        _fill_directions(surroundings, directions[rows, columns])
    _add_pair_differences(bordered)
    counts = region_histograms(directions, regions).reshape(len(regions), 16, BINS)
    return counts[:, : DIFFERENCES + 1].transpose(0, 2, 1)


def _fill_directions(padded: NDArray[Any], directions: NDArray[np.uint8]) -> None:
    """Set the direction of every pixel from its Prewitt differences; `padded` has one more pixel on every side."""
    dh = _scratch.array("dH", padded.shape, np.float32)
    dv = _scratch.array("dV", padded.shape, np.float32)
    # offset to the table's index
    cv2.sepFilter2D(padded, cv2.CV_32F, _DIFFERENCE, _BOX, dh, delta=_STEEPEST)
    cv2.sepFilter2D(padded, cv2.CV_32F, _BOX, _DIFFERENCE, dv, delta=_STEEPEST)
    buffer = _scratch.array("directions", directions.shape, np.uint8)
    directions[...] = cv2.remap(_direction_table(), dh[1:-1, 1:-1], dv[1:-1, 1:-1], cv2.INTER_NEAREST, buffer)


def _add_pair_differences(bordered: NDArray[np.uint8]) -> None:
    """Replace the direction of every edge pixel by direction + 16 * difference, in place.

    Difference 9 means no pair; pixels that are not on an edge get values from 160. Works on runs of the flat array,
    where the pixel 4 further has a fixed offset.
    """
    flat = bordered.ravel()
    stride = bordered.shape[1]
    end = flat.size - (DISTANCE + 1) * stride
    for start in range(0, end, _RUN):
        current = flat[start : min(start + _RUN, end)]
        high = np.multiply(current, 16, out=_scratch.array("high", current.shape, np.uint8))
        candidate = _scratch.array("candidate", current.shape, np.uint8)
        further = _scratch.array("further", current.shape, np.uint8)
        further[...] = _NONE
        for direction, (down, right) in enumerate(_STEPS):
            ahead = start + down * stride + right
            # below 16 only for pixels of this direction whose partner is an edge pixel
            np.bitwise_xor(high, 16 * direction, out=candidate)
            np.bitwise_or(candidate, flat[ahead : ahead + current.size], out=candidate)
            np.minimum(further, candidate, out=further)
        np.greater_equal(further, BINS, out=high.view(np.bool_))  # not paired
        np.subtract(current, further, out=further)
        np.bitwise_and(further, BINS - 1, out=further)
        np.minimum(further, np.subtract(BINS, further, out=candidate), out=further)
        np.maximum(further, np.multiply(high, DIFFERENCES, out=high), out=further)
        np.multiply(further, 16, out=further)
        cv2.add(current, further, current)  # saturates: 255, no edge, stays
        np.minimum(current, _SPREAD[: current.size], out=current)
