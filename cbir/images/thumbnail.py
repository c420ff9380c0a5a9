"""Small pictures for those who look through a collection."""

import cv2
import numpy as np

from cbir.images.depth import Pixels
from cbir.images.image import Image

SIDE = 256  # pixels, the longer one
JPEG_QUALITY = 88


def thumbnail(image: Image) -> bytes:
    """A JPEG of the image, its longer side at most 256 pixels."""
    longer = max(image.height, image.width)
    pixels: Pixels = image.pixels
    if longer > SIDE:
        size = tuple(max(1, round(side * SIDE / longer)) for side in (image.width, image.height))
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    ordered = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    _, file = cv2.imencode(".jpg", ordered, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    return bytes(file)
