"""Resizing of images to the square input of a network."""

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.images.image import Image


def pad_resize(image: Image, side: int) -> NDArray[np.uint8]:
    """Scale the longer side of the grey image to `side` and pad the shorter with black: (side, side) uint8."""
    scale = side / max(image.height, image.width)
    width, height = (max(1, round(length * scale)) for length in (image.width, image.height))
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    small = cv2.resize(image.grey, (width, height), interpolation=interpolation)
    padded = np.zeros((side, side), np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    padded[top : top + height, left : left + width] = small
    return padded
