"""Inputs of encoders: images scaled to their size, and CT volumes."""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from cbir.descriptors.encoders.encoder_card import EncoderCard, EncoderInput, VolumeInput
from cbir.errors import UnreadableImage
from cbir.images import Image
from cbir.images.volume import Volume

_PILLOW = {"linear": PillowImage.Resampling.BILINEAR, "cubic": PillowImage.Resampling.BICUBIC}


def fit_image(image: Image, shape: EncoderInput) -> NDArray[np.uint8]:
    """Scale `image` to the input of a network: (height, width, channels) uint8."""
    pixels = image.grey if shape.channels == "grey" else image.pixels
    width, height = shape.width, shape.height
    if shape.fit == "crop":
        ratio = width / height
        rows = max(1, round(min(image.height, image.width / ratio)))
        columns = max(1, round(min(image.width, image.height * ratio)))
        top, left = (image.height - rows) // 2, (image.width - columns) // 2
        pixels = pixels[top : top + rows, left : left + columns]
    if shape.fit == "letterbox":
        scale = min(width / image.width, height / image.height)
        inner = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        scaled = _pad(_resize(pixels, *inner, shape.interpolation), width, height)
    else:
        scaled = _resize(pixels, width, height, shape.interpolation)
    if scaled.ndim == 2:
        return np.asarray(cv2.merge([scaled] * 3)) if len(shape.mean) == 3 else scaled[:, :, None]
    return scaled


def _resize(pixels: NDArray[np.uint8], width: int, height: int, interpolation: str) -> NDArray[np.uint8]:
    if interpolation != "area":
        return np.asarray(PillowImage.fromarray(pixels).resize((width, height), _PILLOW[interpolation]))
    # OpenCV averages areas only where neither side grows
    smaller = min(width, pixels.shape[1]), min(height, pixels.shape[0])
    scaled: Any = cv2.resize(np.ascontiguousarray(pixels), smaller, interpolation=cv2.INTER_AREA)
    if smaller != (width, height):
        scaled = cv2.resize(scaled, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(scaled, np.uint8)


def _pad(pixels: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Put pixels on the centre of a black image."""
    padded = np.zeros((height, width, *pixels.shape[2:]), np.uint8)
    top, left = (height - pixels.shape[0]) // 2, (width - pixels.shape[1]) // 2
    padded[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
    return padded


# (height, width, channels) uint8 of an image, or (x, y, z) int16 of a volume
Prepared = NDArray[np.integer[Any]]


def fit_input(image: Image, card: EncoderCard) -> Prepared:
    """Return the input of a network: pixels of an image, or voxels of a `Volume`.

    Raises UnreadableImage if the encoder is for the other kind.
    """
    if not isinstance(card.input, VolumeInput):
        if isinstance(image, Volume):
            raise UnreadableImage(f"the encoder {card.name} describes single images, not CT series")
        return fit_image(image, card.input)
    if not isinstance(image, Volume):
        raise UnreadableImage(
            f"the encoder {card.name} describes CT series, not single images; index the folder of a series, or a "
            "NIfTI file, on the command line; search with one, or with a ZIP archive of a series"
        )
    return image.voxels


def normalise_voxels(voxels: Prepared, shape: VolumeInput) -> NDArray[np.float32]:
    """Bring voxels (x, y, z) to the network's form: (1, 1, z, x, y) float32 from 0 to 1."""
    values = voxels.transpose(2, 0, 1).astype(np.float32)
    values -= np.float32(shape.low)
    values /= np.float32(shape.high - shape.low)
    return np.clip(values, 0, 1, out=values)[None, None]
