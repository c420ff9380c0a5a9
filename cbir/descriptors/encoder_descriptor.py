"""Vectors of a pretrained encoder, a descriptor named after the encoder and the hash of its card."""

import re
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors import encoders
from cbir.descriptors.descriptor import Part, Parts
from cbir.descriptors.encoders import Encoder, built_in, encoder_card
from cbir.descriptors.encoders.device_encoder import describe_on, runs_on_gpu
from cbir.descriptors.encoders.encoder_card import VolumeInput
from cbir.descriptors.encoders.fit_volume import Prepared
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.images.volume import VolumeGrid
from cbir.system.device import Device

# Encoder, hash of its card, dimensions, and the descriptor that is concatenated: see `concatenated`.
NAME = re.compile(
    rf"encoder:({encoder_card.NAME.pattern}):([0-9a-f]{{16}}):([0-9]{{1,5}})(?:\+([a-z0-9_]+))?"
)


def encoder_descriptor_name(name: str) -> str:
    """Return the name of the descriptor of the encoder `name`, which may be a network on a hub.

    Raises InvalidInput if there is no such encoder or its weights are missing.
    """
    encoder = encoders.get(name)
    encoder.check_available()
    return f"encoder:{encoder.name}:{encoder.card.hash}:{encoder.dimensions}"


def encoder_of(name: str) -> Encoder | None:
    """Return the encoder of the descriptor `name`, alone or beside another; None for other descriptors.

    Raises InvalidInput if there is no such encoder, or one with other weights or parameters.
    """
    match = NAME.fullmatch(name)
    if match is None:
        return None
    encoder = encoders.get(match[1])
    if encoder.card.hash != match[2] or encoder.dimensions != int(match[3]):
        raise InvalidInput(
            f"the encoder {match[1]} has other weights or parameters (hash {encoder.card.hash}) "
            f"than {name}; index the images again"
        )
    return encoder


def volume_grid(name: str) -> VolumeGrid | None:
    """Return the grid of the series that the descriptor `name` describes; None if it describes images.

    Only built-in encoders describe series.
    """
    match = NAME.fullmatch(name)
    card = built_in.CARDS.get(match[1]) if match else None
    shape = card.input if card else None
    return shape.grid if isinstance(shape, VolumeInput) else None


class EncoderDescriptor:
    """Pooled output of an encoder: (dimensions,) float32, neither centred nor scaled.

    The card is read with the first image; InvalidInput is raised then if it is not the one that the name gives.
    """

    def __init__(self, name: str, device: Device = "auto") -> None:
        """Set up the descriptor `name`, from `encoder_descriptor_name`, whose batches are described on `device`.

        Raises InvalidInput if it is no such name.
        """
        match = NAME.fullmatch(name)
        if match is None or match[4]:
            raise InvalidInput(f"{name!r} is not the name of an encoder's descriptor")
        self.name = name
        self.dimensions = int(match[3])
        self.parts: Parts = (Part("encoder", 0, self.dimensions, half=True),)
        self._device = device

    def __call__(self, image: Image) -> NDArray[np.float32]:
        return np.asarray(self.describe_batch([self.prepare(image)])[0])

    def prepare(self, image: Image) -> Prepared:
        """Reduce `image` to the network's input; raise UnreadableImage as `Encoder.prepare` does."""
        return self._encoder.prepare(image)

    def describe_batch(self, inputs: list[Prepared]) -> NDArray[np.float32]:
        """Describe n prepared images: (n, dimensions) float32; a few on the CPU in any case."""
        return describe_on(self._device, self._encoder, inputs)

    def batches_on_gpu(self) -> bool:
        """Return whether many images are described on a GPU; raises as `runs_on_gpu` does."""
        return runs_on_gpu(self._encoder, self._device)

    @cached_property
    def _encoder(self) -> Encoder:
        encoder = encoder_of(self.name)
        assert encoder is not None
        return encoder
