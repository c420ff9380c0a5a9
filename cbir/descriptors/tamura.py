"""Texture features of human perception (Tamura, Mori and Yamawaki 1978, IEEE Trans. SMC 8(6), 460-473)."""

import math
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import DTypeLike, NDArray

from cbir.descriptors.descriptor import Part, Parts
from cbir.images import Image

Region = tuple[slice, slice]  # rows and columns

ROWS, COLUMNS = 512, 512  # of a tile; a dozen arrays of this size roughly fit an L2 cache of 2 MB


def tiles(height: int, width: int) -> Iterator[Region]:
    """Yield (rows, columns) slices of tiles that cover (height, width), row by row; the last ones are smaller."""
    for top in range(0, height, ROWS):
        for left in range(0, width, COLUMNS):
            yield slice(top, min(top + ROWS, height)), slice(left, min(left + COLUMNS, width))


def region_histograms(values: NDArray[np.uint8], regions: Sequence[Region]) -> NDArray[np.float64]:
    """Return the histogram of `values` 0..255 in each region: shape (regions, 256)."""
    counts = [cv2.calcHist([values[region]], [0], None, [256], [0, 256]) for region in regions]
    return np.array(counts, np.float64).reshape(len(regions), 256)


class Scratch(threading.local):
    """Named buffers, one set per thread, that grow to the largest size requested.

    New memory would cost more than the computation in it: the system clears every page on first access.
    """

    def __init__(self) -> None:
        self._memory: dict[str, NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array with arbitrary content in the buffer of that name.

        Parameters
        ----------
        name : str
            Name of the buffer, which all arrays of this name share.
        shape : tuple of int
            Shape of the array.
        dtype : dtype
            Type of the array.
        """
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory = self._memory.get(name)
        if memory is None or memory.size < size:
            memory = self._memory[name] = np.empty(size, np.uint8)
        return memory[:size].view(dtype).reshape(shape)

    def copy(self, name: str, values: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
        """Copy an array into a buffer.

        Parameters
        ----------
        name : str
            Name of the buffer.
        values : array
            Array to copy.
        dtype : dtype
            Type of the copy.
        """
        copied = self.array(name, values.shape, dtype)
        copied[...] = values
        return copied


LARGEST = 32  # 2^5, the side of the largest window
_EXACT_16 = 16  # sums of windows up to this side fit 16 bits: 16 * 16 * 255 = 65280
_EXACT = 256 * 256  # pixels of an image up to which sums have 32 bits, which take twice as long
_scratch = Scratch()


def best_sizes(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the window side 2^k, k = 0..5, that fits each pixel best: shape of `grey`, uint8, 1 to 32.

    E_k(x, y) is the larger of |mean right - mean left| and |mean below - mean above| of two 2^k x 2^k windows that
    meet at the pixel (which belongs to the right or lower one, and to the middle in their other direction); the best
    k has the largest E_k, the smallest such k among equals. Border pixels are replicated.
    """
    padded = cv2.copyMakeBorder(grey, LARGEST, LARGEST, LARGEST, LARGEST, cv2.BORDER_REPLICATE)
    sizes = np.ones_like(grey)
    dtype = np.int32 if grey.size <= _EXACT else np.uint16
    for rows, columns in tiles(*grey.shape):
        bottom, right = rows.stop + 2 * LARGEST, columns.stop + 2 * LARGEST
        _update_best_sizes(padded[rows.start : bottom, columns.start : right], sizes[rows, columns], dtype)
    return sizes


def _update_best_sizes(padded: NDArray[Any], sizes: NDArray[np.uint8], dtype: DTypeLike) -> None:
    """Replace the initial 1 in `sizes` by the best window sides; `padded` has LARGEST more pixels on every side.

    Computes with sums instead of means, which is exact: E_k times the area 4^k. Only with the `dtype` uint16 the
    largest windows add sums of 16 x 16 rounded to quarters, an error of less than 0.02 grey levels.
    """
    sums = _scratch.copy("sums", padded, dtype)
    best = _scratch.copy("best", _strength(padded, 1, sizes.shape), dtype)
    larger = _scratch.array("larger", sizes.shape, np.uint8)
    side = 1
    while side < LARGEST:
        if side == _EXACT_16 and sums.dtype == np.uint16:
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


SIDE = 4  # sub-images per row and column, for regularity
_CONTRAST_SCALE = 128.0

_LEVELS = np.arange(256, dtype=np.float64)
_DIRECTIONS = np.arange(BINS)
_TURNS = (_DIRECTIONS[:, None] - _DIRECTIONS) % BINS
_SQUARED_ANGLES = (np.minimum(_TURNS, _TURNS.T) * np.pi / BINS) ** 2
_COSINES = np.cos(2.0 * np.pi * np.arange(DIFFERENCES) / BINS)


class Tamura:
    """Coarseness (1..32), contrast (0..128), directionality (0..1), line-likeness (-1..1), regularity (0..1),
    roughness (coarseness + contrast).

    All six are defined for every image: a flat one gives 1, 0, 0, 0, 1, 1. Computed at full resolution, without
    random sampling. Choices that the paper leaves open: windows of 1 x 1 pixel and the border (`best_sizes`),
    the sample variance (contrast), peaks and normalisation (directionality), 4 x 4 sub-images and the scale of each
    feature (regularity).
    """

    name = "tamura"
    dimensions = 6
    parts: Parts = (Part("tamura", 0, 6),)

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """Describe `image`: shape (6,), float32."""
        grey = image.grey
        regions = _sub_images(*grey.shape)
        sizes = best_sizes(grey)
        totals = np.array([cv2.sumElems(sizes[region])[0] for region in regions])
        areas = np.array([sizes[region].size for region in regions], np.float64)
        levels = region_histograms(grey, regions)
        edges = direction_counts(grey, regions)
        # one row for the whole image, then one for each sub-image
        features = np.stack(
            [
                _prepend_total(totals) / _prepend_total(areas),
                contrast(_prepend_total(levels)),
                directionality(_prepend_total(edges.sum(axis=2))),
                line_likeness(_prepend_total(edges.sum(axis=1))[:, :DIFFERENCES]),
            ]
        )
        coarseness, sharpness, direction, line = features[:, 0]
        regular = regularity(features[:, 1:])
        return np.array([coarseness, sharpness, direction, line, regular, coarseness + sharpness], np.float32)


def contrast(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute sigma / (mu4 / sigma^4)^(1/4) of histograms `counts` (n, 256): shape (n,).

    sigma^2 is the sample variance, mu4 the mean fourth power; 0 for one pixel and for equal pixels.
    """
    pixels = counts.sum(axis=1)
    squares = (_LEVELS - (counts @ _LEVELS / pixels)[:, None]) ** 2
    variance = (counts * squares).sum(axis=1) / np.maximum(pixels - 1, 1)
    fourth = (counts * squares**2).sum(axis=1) / pixels
    return np.asarray(variance / np.where(fourth > 0, fourth, 1.0) ** 0.25, np.float64)


def directionality(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute 1 - r n_p sum_p sum_{phi in w_p} (phi - phi_p)^2 H(phi) of `counts` (n, 16): shape (n,), 0..1.

    Peaks are circular local maxima (the first of equal neighbours) of at least twice the uniform level, and always
    the highest bin. A bin belongs to its nearest peak. r = 12 / pi^2 makes a uniform histogram 0 and a single peak 1.
    An image without edge pixels gives 0.
    """
    pixels = counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(pixels, 1)
    level = np.minimum(2.0 / BINS, shares.max(axis=1, keepdims=True))
    before, after = np.roll(shares, 1, axis=1), np.roll(shares, -1, axis=1)
    peaks = (shares > before) & (shares >= after) & (shares >= level)
    peaks[:, 0] |= ~peaks.any(axis=1)  # all bins equal
    nearest = np.where(peaks[:, None, :], _SQUARED_ANGLES, np.inf).min(axis=2)
    spread = (shares * nearest).sum(axis=1) * peaks.sum(axis=1)
    return np.where(pixels[:, 0] > 0, np.clip(1.0 - 12.0 / np.pi**2 * spread, 0.0, 1.0), 0.0)


def line_likeness(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute sum P(i, j) cos((i - j) 2 pi / n) / sum P of pair counts by difference (n, 9): shape (n,).

    An image without pairs of edge pixels gives 0.
    """
    return np.asarray(counts @ _COSINES / np.maximum(counts.sum(axis=1), 1), np.float64)


def regularity(features: NDArray[np.float64]) -> float:
    """Compute 1 - r (s_crs + s_con + s_dir + s_lin), r = 1/4, of the sub-images' `features` (4, n).

    s: standard deviations over the sub-images; coarseness is divided by 32 and contrast by 128 first, so that each
    feature has a range of about one.
    """
    crs, con, direction, line = features.std(axis=1)
    return float(1.0 - 0.25 * (crs / LARGEST + con / _CONTRAST_SCALE + direction + line))


def _sub_images(height: int, width: int) -> Sequence[Region]:
    """Return a grid of 4 x 4 regions, without the empty ones of an image with a side under 4."""
    rows, columns = ([k * side // SIDE for k in range(SIDE + 1)] for side in (height, width))
    return [
        (slice(top, bottom), slice(left, right))
        for top, bottom in pairwise(rows)
        for left, right in pairwise(columns)
        if top < bottom and left < right
    ]


def _prepend_total(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Insert the sum of all rows before the rows."""
    return np.concatenate([values.sum(axis=0, keepdims=True), values])
