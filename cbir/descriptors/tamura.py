"""Texture as people describe it (Tamura, Mori and Yamawaki 1978, IEEE Trans. SMC 8(6), 460-473)."""

from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import Part
from cbir.descriptors.tamura_coarseness import LARGEST, best_sizes
from cbir.descriptors.tamura_directions import BINS, DIFFERENCES, direction_counts
from cbir.descriptors.tiles import region_histograms
from cbir.images import Image

SIDE = 4  # sub-images a row and a column, for regularity
_CONTRAST_SCALE = 128.0

_LEVELS = np.arange(256, dtype=np.float64)
_PLACES = np.arange(BINS)
_APART = np.minimum((_PLACES[:, None] - _PLACES) % BINS, (_PLACES - _PLACES[:, None]) % BINS)
_SQUARED_ANGLES = (_APART * np.pi / BINS) ** 2
_COSINES = np.cos(2.0 * np.pi * np.arange(DIFFERENCES) / BINS)


class Tamura:
    """Coarseness (1..32), contrast (0..128), directionality (0..1), line-likeness (-1..1), regularity (0..1),
    roughness (coarseness + contrast).

    Every image has all six: a flat one is 1, 0, 0, 0, 1, 1. Full resolution, nothing random. What the paper
    leaves open: windows of 1 x 1 pixel and the border (`tamura_coarseness`), the sample variance (contrast), peaks
    and the normalisation (directionality), 4 x 4 sub-images and the scale of each feature (regularity).
    """

    name = "tamura"
    dimensions = 6
    parts: tuple[Part, ...] = (Part("tamura", 0, 6),)

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """The descriptor of `image`: shape (6,), float32."""
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
                _whole_first(totals) / _whole_first(areas),
                contrast(_whole_first(levels)),
                directionality(_whole_first(edges.sum(axis=2))),
                line_likeness(_whole_first(edges.sum(axis=1))[:, :DIFFERENCES]),
            ]
        )
        coarseness, sharpness, direction, line = features[:, 0]
        regular = regularity(features[:, 1:])
        return np.array([coarseness, sharpness, direction, line, regular, coarseness + sharpness], np.float32)


def contrast(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """sigma / (mu4 / sigma^4)^(1/4) of histograms (n, 256), the paper's contrast: shape (n,).

    sigma^2 is the sample variance, mu4 the mean fourth power; 0 for one pixel and for equal ones.
    """
    pixels = counts.sum(axis=1)
    squares = (_LEVELS - (counts @ _LEVELS / pixels)[:, None]) ** 2
    variance = (counts * squares).sum(axis=1) / np.maximum(pixels - 1, 1)
    fourth = (counts * squares**2).sum(axis=1) / pixels
    return variance / np.where(fourth > 0, fourth, 1.0) ** 0.25


def directionality(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 - r n_p sum_p sum_{phi in w_p} (phi - phi_p)^2 H(phi) of counts (n, 16): shape (n,), 0..1.

    Peaks: circular local maxima (the first of equal neighbours) of at least twice the uniform level; the highest
    always is one. A bin belongs to its nearest peak. r = 12 / pi^2 makes a uniform histogram 0 and a
    single peak 1. Without any edge pixel: 0.
    """
    pixels = counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(pixels, 1)
    level = np.minimum(2.0 / BINS, shares.max(axis=1, keepdims=True))
    peaks = (
        (shares > np.roll(shares, 1, axis=1)) & (shares >= np.roll(shares, -1, axis=1)) & (shares >= level)
    )
    peaks[:, 0] |= ~peaks.any(axis=1)  # all bins equal
    nearest = np.where(peaks[:, None, :], _SQUARED_ANGLES, np.inf).min(axis=2)
    spread = (shares * nearest).sum(axis=1) * peaks.sum(axis=1)
    return np.where(pixels[:, 0] > 0, np.clip(1.0 - 12.0 / np.pi**2 * spread, 0.0, 1.0), 0.0)


def line_likeness(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """sum P(i, j) cos((i - j) 2 pi / n) / sum P of pair counts by difference (n, 9): shape (n,).

    Without any pair of edge pixels: 0.
    """
    return counts @ _COSINES / np.maximum(counts.sum(axis=1), 1)


def regularity(features: NDArray[np.float64]) -> float:
    """1 - r (s_crs + s_con + s_dir + s_lin), r = 1/4, of the sub-images' features (4, n).

    s: standard deviations over the sub-images; coarseness is divided by 32 and contrast by 128 first, so that
    each feature has a range of about one.
    """
    crs, con, direction, line = features.std(axis=1)
    return float(1.0 - 0.25 * (crs / LARGEST + con / _CONTRAST_SCALE + direction + line))


def _sub_images(height: int, width: int) -> Sequence[tuple[slice, slice]]:
    """A grid of 4 x 4, without the empty ones of an image with a side under 4."""
    rows, columns = ([k * side // SIDE for k in range(SIDE + 1)] for side in (height, width))
    return [
        (slice(top, bottom), slice(left, right))
        for top, bottom in pairwise(rows)
        for left, right in pairwise(columns)
        if top < bottom and left < right
    ]


def _whole_first(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of all rows put before the rows."""
    return np.concatenate([values.sum(axis=0, keepdims=True), values])
