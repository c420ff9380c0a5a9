"""Images of one size, as networks want them."""

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.images.image import Image


def pad_resize(image: Image, side: int) -> NDArray[np.uint8]:
    """(side, side) uint8: the grey image, its longer side scaled to `side`, black on both sides of the shorter."""
    scale = side / max(image.height, image.width)
    width, height = (max(1, round(length * scale)) for length in (image.width, image.height))
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    small = cv2.resize(image.grey, (width, height), interpolation=way)
    found = np.zeros((side, side), np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    found[top : top + height, left : left + width] = small
    return found
