"""Inputs of encoders: images scaled to their size, and CT volumes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.encoder_card import EncoderCard, VolumeInput
from cbir.descriptors.encoders.fit_image import fit_image
from cbir.errors import UnreadableImage
from cbir.images import Image
from cbir.images.volume import Volume

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
