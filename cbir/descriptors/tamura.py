"""Texture features of human perception (Tamura, Mori and Yamawaki 1978, IEEE Trans. SMC 8(6), 460-473)."""

from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import Part, Parts
from cbir.descriptors.tamura_coarseness import LARGEST, best_sizes
from cbir.descriptors.tamura_directions import BINS, DIFFERENCES, direction_counts
from cbir.descriptors.tiles import Region, region_histograms
from cbir.images import Image

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
    random sampling. Choices that the paper leaves open: windows of 1 x 1 pixel and the border (`tamura_coarseness`),
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
