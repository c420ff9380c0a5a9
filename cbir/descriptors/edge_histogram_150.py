"""Edge Histogram with global and semi-global bins (Won, Park and Park 2002, ETRI Journal 24(1), 23-30)."""

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import Part, Parts
from cbir.descriptors.edge_histogram import KINDS, LEVELS, SIDE, local_bins
from cbir.images import Image


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
