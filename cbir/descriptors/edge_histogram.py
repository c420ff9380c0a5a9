"""MPEG-7 Edge Histogram: local edge directions (ISO/IEC 15938-3:2002, section 7.4), and with global bins.

Equal, integer by integer, to the reference software (ISO/IEC 15938-6, XM): its order of floating-point operations is
kept because it decides ties. Global and semi-global bins: Won, Park and Park 2002, ETRI Journal 24(1), 23-30.
"""

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import Part, Parts
from cbir.images import Image

SIDE = 4  # sub-images per row and column
KINDS = 5  # vertical, horizontal, 45 degrees, 135 degrees, non-directional
BINS = SIDE * SIDE * KINDS

# (5, 8): dequantised values by kind of edge
LEVELS = np.array(
    [
        [0.010867, 0.057915, 0.099526, 0.144849, 0.195573, 0.260504, 0.358031, 0.530128],
        [0.012266, 0.069934, 0.125879, 0.182307, 0.243396, 0.314563, 0.411728, 0.564319],
        [0.004193, 0.025852, 0.046860, 0.068519, 0.093286, 0.123490, 0.161505, 0.228960],
        [0.004174, 0.025924, 0.046232, 0.067163, 0.089655, 0.115391, 0.151904, 0.217745],
        [0.006778, 0.051667, 0.108650, 0.166257, 0.224226, 0.285691, 0.356375, 0.450972],
    ]
)
_BORDERS = (LEVELS[:, :-1] + LEVELS[:, 1:]) / 2.0

_STRIP = 2**22  # pixels whose sums are computed at a time
_BLOCKS = 1100  # target number of blocks
_THRESHOLD = 11.0  # minimum edge strength of a block
_SHORTEST = 70  # pixels; an image with a shorter side is enlarged
_LONGEST = 16384  # pixels; enlarging does not go beyond


class EdgeHistogram:
    """80 integers 0..7: quantised fractions of five kinds of edge in each of 4 x 4 sub-images, row by row.

    Order of kinds: vertical, horizontal, 45 degrees, 135 degrees, non-directional. The reference software divides by
    zero for elongated images (sub-images without a block, from about 1 : 30); here the blocks shrink until every
    sub-image has one. Images with a shorter side under 70 are enlarged (bilinear).
    """

    name = "edge_histogram"
    dimensions = BINS
    parts: Parts = (Part("edge_histogram", 0, BINS),)

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """Describe `image`: shape (80,), float32."""
        return local_bins(image).astype(np.float32)


def local_bins(image: Image) -> NDArray[np.int64]:
    """Return the 80 quantised indices 0..7: shape (80,)."""
    grey = _enlarged(image.grey)
    height, width = grey.shape
    block = _block_size(height, width)
    kinds = _kinds(_quadrant_means(grey, block))
    rows, columns = kinds.shape
    regions = _regions(rows, block, height)[:, None] * SIDE + _regions(columns, block, width)
    counts = np.bincount((regions * (KINDS + 1) + kinds).ravel(), minlength=SIDE * SIDE * (KINDS + 1))
    counts = counts.reshape(SIDE * SIDE, KINDS + 1)
    shares = counts[:, :KINDS] / counts.sum(axis=1, keepdims=True)
    return np.asarray((shares[:, :, None] > _BORDERS).sum(axis=2).ravel())


def _enlarged(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Enlarge (bilinear) to a shorter side of 70; the longer one does not grow beyond 16384."""
    shorter = min(grey.shape)
    if shorter >= _SHORTEST:
        return grey
    scale = _SHORTEST / shorter
    height, width = (max(_SHORTEST, min(int(side * scale + 0.5), max(side, _LONGEST))) for side in grey.shape)
    return np.asarray(cv2.resize(grey, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)


def _block_size(height: int, width: int) -> int:
    """Return the standard's even block size, reduced until every sub-image has a block."""
    block = max(int(math.sqrt(width * height // _BLOCKS) / 2) * 2, 2)
    side = min(height, width)
    while len(np.unique(_regions(side // block, block, side))) < SIDE:
        block -= 2
    return block


def _regions(blocks: int, block: int, side: int) -> NDArray[np.int64]:
    """Return the row (or column) 0..3 of the sub-image that contains each block's origin."""
    return np.arange(blocks) * block * SIDE // side


def _quadrant_means(grey: NDArray[np.uint8], block: int) -> NDArray[np.float64]:
    """Return the means of the block quadrants: (2 * rows of blocks, 2 * columns of blocks)."""
    half = block // 2
    rows, columns = (side // block * 2 for side in grey.shape)
    sums = np.empty((rows, columns), np.float64)
    step = max(1, _STRIP // (half * grey.shape[1]))
    for start in range(0, rows, step):
        sums[start : start + step] = _quadrant_sums(
            grey[start * half : min(start + step, rows) * half, : columns * half], half
        )
    return sums / (block * block / 4.0)


def _quadrant_sums(grey: NDArray[np.uint8], half: int) -> NDArray[Any]:
    """Return the sums of squares of side `half`, exactly."""
    small = grey.size < 2**31 // 255  # the sum of all pixels fits 32 bits
    corners = cv2.integral(grey, sdepth=cv2.CV_32S if small else cv2.CV_64F)[::half, ::half]
    across = corners[:, 1:] - corners[:, :-1]
    return np.asarray(across[1:] - across[:-1])


def _kinds(means: NDArray[np.float64]) -> NDArray[np.int64]:
    """Classify every block: kind of edge 0..4, 5 for none."""
    d1, d2 = means[::2, ::2], means[::2, 1::2]
    d3, d4 = means[1::2, ::2], means[1::2, 1::2]
    strengths = np.stack(
        [
            np.abs(d1 + d3 - (d2 + d4)),
            np.abs(d1 + d2 - (d3 + d4)),
            math.sqrt(2) * np.abs(d1 - d4),
            math.sqrt(2) * np.abs(d2 - d3),
            2 * np.abs(d1 - d2 - d3 + d4),
        ]
    )
    strongest: NDArray[np.int64] = strengths.argmax(axis=0)  # the first of equal strengths
    strongest[strengths.max(axis=0) < _THRESHOLD] = KINDS
    return strongest


def _groups() -> NDArray[np.float64]:
    """Return weights (14, 16) of the sub-images in the image, 4 columns, 4 rows and 5 blocks of 2 x 2."""
    indices = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    corners = [indices[top : top + 2, left : left + 2] for top in (0, 2) for left in (0, 2)]
    members = [indices, *indices.T, *indices, *corners, indices[1:3, 1:3]]
    return np.array([np.isin(indices, member).ravel() / member.size for member in members])


_GROUPS = _groups()


class EdgeHistogram150:
    """150 values in [0, 1]: 80 local, 5 global and 65 semi-global bins, computed from dequantised local ones.

    Local: as in `edge_histogram`. Global: mean of the 16 sub-images. Semi-global: means over each column, each row
    and five blocks of 2 x 2 (upper left, upper right, lower left, lower right, centre).
    """

    name = "edge_histogram_150"
    dimensions = 150
    parts: Parts = (Part("edge_histogram", 0, 150),)

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """Describe `image`: shape (150,), float32."""
        indices = local_bins(image).reshape(SIDE * SIDE, KINDS)
        local = LEVELS[np.arange(KINDS), indices]
        return np.concatenate([local.ravel(), (_GROUPS @ local).ravel()]).astype(np.float32)
