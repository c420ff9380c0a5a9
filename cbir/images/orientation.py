"""EXIF orientation (CIPA DC-008, 4.6.4)."""

import numpy as np
from numpy.typing import NDArray

TAG = 0x0112


def apply_orientation(samples: NDArray[np.generic], orientation: object) -> NDArray[np.generic]:
    """Rotate and mirror samples (height, width, ...) by orientation 1..8; leave them unchanged for other values."""
    if orientation not in (2, 3, 4, 5, 6, 7, 8):
        return samples
    if orientation in (3, 4, 6, 7):
        samples = samples[::-1]
    if orientation in (2, 3, 7, 8):
        samples = samples[:, ::-1]
    return samples.swapaxes(0, 1) if orientation in (5, 6, 7, 8) else samples
