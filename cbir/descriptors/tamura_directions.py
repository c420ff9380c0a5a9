"""Which way edges run, and whether they run on (Tamura, Mori and Yamawaki 1978, directionality, line-likeness)."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.tiles import Scratch, region_histograms, tiles

BINS = 16  # directions over pi
THRESHOLD = 12  # of (|dH| + |dV|) / 2
DISTANCE = 4  # pixels between the two of a pair
DIFFERENCES = BINS // 2 + 1  # how far apart two directions are, 0..8 bins
_STEEPEST = 3 * 255  # largest |dH| or |dV|
_NONE = 255  # direction of a pixel that is no edge
_RUN = 1 << 17  # pixels looked at together
# a histogram counts long stretches of one value broken by others slowly: what is no edge is spread over 160..255
_SPREAD = np.resize(np.arange(BINS * (DIFFERENCES + 1), 256, dtype=np.uint8), _RUN)
_ONES, _DIFFERENCE = np.ones(3, np.float32), np.array([-1, 0, 1], np.float32)
_scratch = Scratch()


@cache
def _direction_table() -> NDArray[np.uint8]:
    """Direction of (dV, dH), both from -765: shape (1531, 1531), 0..15, or 255 below the threshold.

    Bin k holds the angles theta = atan(dV / dH) + pi / 2 with (2k - 1) pi / 2n <= theta < (2k + 1) pi / 2n, as in
    the paper: horizontal, vertical and diagonal edges lie in the middle of their bins.
    """
    steps = np.arange(-_STEEPEST, _STEEPEST + 1)
    theta = np.arctan2(steps[:, None], steps) + np.pi / 2
    table = (np.floor(theta * BINS / np.pi + 0.5) % BINS).astype(np.uint8)
    table[np.abs(steps[:, None]) + np.abs(steps) < 2 * THRESHOLD] = _NONE
    return table


_ANGLES = np.arange(BINS) * np.pi / BINS
_STEPS = np.rint(DISTANCE * np.stack([np.sin(_ANGLES), np.cos(_ANGLES)], axis=1)).astype(int).tolist()


def direction_counts(grey: NDArray[np.uint8], regions: Sequence[tuple[slice, slice]]) -> NDArray[np.float64]:
    """Edge pixels by region, direction and how the edge goes on: shape (regions, 16, 10).

    The last axis: the pixel 4 further along the edge has a direction 0..8 bins away, or (9) is no edge pixel or
    outside the image.
    """
    height, width = grey.shape
    # a border of "no edge" stands for what is outside; the last row lets the last pixel look 4 to its right
    bordered = np.full((height + DISTANCE + 1, width + 2 * DISTANCE), _NONE, np.uint8)
    directions = bordered[:height, DISTANCE:-DISTANCE]
    padded = cv2.copyMakeBorder(grey, 1, 1, 1, 1, cv2.BORDER_REPLICATE)
    for rows, columns in tiles(height, width):
        _find(padded[rows.start : rows.stop + 2, columns.start : columns.stop + 2], directions[rows, columns])
    _pair(bordered)
    counts = region_histograms(directions, regions).reshape(len(regions), 16, BINS)
    return counts[:, : DIFFERENCES + 1].transpose(0, 2, 1)


def _find(padded: NDArray[Any], directions: NDArray[np.uint8]) -> None:
    """Fills in the direction of every pixel from its Prewitt differences; `padded` has a pixel more all around."""
    dh = _scratch.array("dH", padded.shape, np.float32)
    dv = _scratch.array("dV", padded.shape, np.float32)
    # counted from -765, as the table is
    cv2.sepFilter2D(padded, cv2.CV_32F, _DIFFERENCE, _ONES, dh, delta=_STEEPEST)
    cv2.sepFilter2D(padded, cv2.CV_32F, _ONES, _DIFFERENCE, dv, delta=_STEEPEST)
    found = _scratch.array("found", directions.shape, np.uint8)
    directions[...] = cv2.remap(_direction_table(), dh[1:-1, 1:-1], dv[1:-1, 1:-1], cv2.INTER_NEAREST, found)


def _pair(bordered: NDArray[np.uint8]) -> None:
    """Turns the direction of every edge pixel into direction + 16 * difference, in place.

    Difference 9 stands for no pair; what is no edge becomes anything from 160.
    Works on runs of the flat array, where the pixel 4 further is at a fixed distance ahead.
    """
    flat = bordered.ravel()
    stride = bordered.shape[1]
    end = flat.size - (DISTANCE + 1) * stride
    for start in range(0, end, _RUN):
        own = flat[start : min(start + _RUN, end)]
        high = np.multiply(own, 16, out=_scratch.array("high", own.shape, np.uint8))
        there = _scratch.array("there", own.shape, np.uint8)
        further = _scratch.array("further", own.shape, np.uint8)
        further[...] = _NONE
        for direction, (down, right) in enumerate(_STEPS):
            ahead = start + down * stride + right
            # below 16 only where the direction is this one and the pixel further along is an edge pixel
            np.bitwise_xor(high, 16 * direction, out=there)
            np.bitwise_or(there, flat[ahead : ahead + own.size], out=there)
            np.minimum(further, there, out=further)
        np.greater_equal(further, BINS, out=high.view(np.bool_))  # not paired
        np.subtract(own, further, out=further)
        np.bitwise_and(further, BINS - 1, out=further)
        np.minimum(further, np.subtract(BINS, further, out=there), out=further)
        np.maximum(further, np.multiply(high, DIFFERENCES, out=high), out=further)
        np.multiply(further, 16, out=further)
        cv2.add(own, further, own)  # saturates: what is no edge stays 255
        np.minimum(own, _SPREAD[: own.size], out=own)
