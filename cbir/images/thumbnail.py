"""Thumbnails, and encoding of pixels as PNG and JPEG."""

from collections.abc import Sequence

import cv2
import numpy as np

from cbir.images.bit_depth import Pixels
from cbir.images.image import Image

SIDE = 256  # longest side in pixels
JPEG_QUALITY = 88


def make_thumbnail(image: Image) -> bytes:
    """Encode `image` as a JPEG with a longest side of at most 256 pixels."""
    return encode_image(shrink(image.pixels, SIDE), ".jpg", [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])


def encode_view(image: Image, side: int) -> bytes:
    """Encode `image` as a PNG, little compressed, with a longest side of at most `side` pixels."""
    return encode_image(shrink(image.pixels, side), ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1])


def shrink(pixels: Pixels, side: int) -> Pixels:
    """Scale pixels down to a longest side of at most `side`; leave smaller ones unchanged."""
    height, width = pixels.shape[:2]
    longer = max(height, width)
    if longer <= side:
        return pixels
    size = max(1, round(width * side / longer)), max(1, round(height * side / longer))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def encode_image(pixels: Pixels, kind: str, options: Sequence[int] = ()) -> bytes:
    """Encode grey or RGB pixels.

    Parameters
    ----------
    pixels : (height, width) or (height, width, 3) uint8
        Grey or RGB.
    kind : str
        ".png" or ".jpg".
    options : sequence of int
        Flags and values of `cv2.imencode`.
    """
    ordered = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    _, file = cv2.imencode(kind, ordered, options)
    return bytes(file)
