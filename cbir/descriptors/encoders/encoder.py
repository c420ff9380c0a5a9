"""Encoders: pretrained networks that turn images into vectors, by onnxruntime."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import built_in, encoder_files
from cbir.descriptors.encoders.encoder_card import EncoderCard, EncoderInput, VolumeInput
from cbir.descriptors.encoders.encoder_network import EncoderNetwork
from cbir.descriptors.encoders.fit_volume import Prepared, fit_input
from cbir.descriptors.encoders.text_tower import has_text_tower, load_text_tower
from cbir.descriptors.networks.onnx_session import check_onnxruntime, open_onnx_session
from cbir.errors import InvalidInput
from cbir.images import Image


class Encoder:
    """A network with its card, read when it describes the first images. Thread-safe.

    folder: of stored encoders.
    """

    def __init__(self, card: EncoderCard, folder: Path) -> None:
        self.card, self.folder = card, folder
        self.name, self.dimensions = card.name, card.dimensions

    def prepare(self, image: Image) -> Prepared:
        """Scale `image` to the network's input: (height, width, channels) uint8, or voxels (x, y, z) of a `Volume`.

        Raises UnreadableImage if the encoder is for series and `image` is none, or the other way round.
        """
        return fit_input(image, self.card)

    def describe_batch(self, inputs: Sequence[Prepared]) -> NDArray[np.float32]:
        """Describe n prepared images: (n, dimensions) float32, as the network gives them.

        Raises InvalidInput if the network is missing or damaged, UndescribableImage if it gives values for an image
        that cannot be stored.
        """
        vectors = np.empty((len(inputs), self.dimensions), np.float32)
        for row, pixels in enumerate(inputs):  # one by one: larger batches leave the cache and are slower
            vectors[row] = _load_network(self.card, self.folder).describe(pixels)
        return vectors

    def maps(self, pixels: Prepared) -> dict[str, NDArray[np.float32]]:
        """Return the outputs of the network for a prepared image, before pooling, by their names."""
        return _load_network(self.card, self.folder).run(pixels)

    @property
    def image_input(self) -> EncoderInput:
        """Input for single images; raises InvalidInput if the encoder is for CT series."""
        if isinstance(self.card.input, VolumeInput):
            raise InvalidInput(f"the encoder {self.name} describes CT series, not single images")
        return self.card.input

    def check_images(self) -> None:
        """Raise InvalidInput if the encoder is for CT series."""
        _ = self.image_input

    @property
    def has_text(self) -> bool:
        """True if texts can be described too."""
        return has_text_tower(self.card, self.folder)

    def describe_text(self, text: str) -> NDArray[np.float32]:
        """Return the vector (dimensions,) of a text, which is compared with those of images by their cosine.

        Raises InvalidInput if the encoder has no text tower, or it is damaged.
        """
        return load_text_tower(self.card, self.folder).describe(text)

    def open_network(self, threads: int) -> EncoderNetwork:
        """Load the network for so many threads of its own; raise InvalidInput if it is missing or damaged."""
        return EncoderNetwork(open_onnx_session(load_content(self.card, self.folder), threads), self.card)

    def check_available(self) -> None:
        """Raise InvalidInput, with the remedy, if the network is neither stored nor can be converted, or run."""
        check_onnxruntime()
        if not encoder_files.is_stored(self.folder, self.card):
            _check_source(self.card)

    def store(self) -> Path:
        """Return the path of the stored network, which is converted first if needed.

        Raises InvalidInput if it is missing or damaged, or the folder cannot be written to.
        """
        load_content(self.card, self.folder)
        if not encoder_files.is_stored(self.folder, self.card):
            raise InvalidInput(f"{self.folder} cannot be written to; change the setting encoder_folder")
        return encoder_files.network_path(self.folder, self.card)


def load_content(card: EncoderCard, folder: Path) -> bytes:
    """Return the ONNX network of a card: stored in `folder`, or converted from a package and stored.

    Raises InvalidInput if it is missing or damaged.
    """
    if _is_built_in(card):
        return encoder_files.load_or_make(folder, card, lambda: built_in.make_network(card.name))
    content = encoder_files.read_network(folder, card)
    if content is None:
        raise _missing(card)
    return content


def _check_source(card: EncoderCard) -> None:
    if not _is_built_in(card):
        raise _missing(card)
    built_in.weights_path(card.name)


def _is_built_in(card: EncoderCard) -> bool:
    return built_in.CARDS.get(card.name) == card


def _missing(card: EncoderCard) -> InvalidInput:
    return InvalidInput(f"the network of the encoder {card.name} is missing; add it again: cbir encoder add")


@lru_cache(maxsize=16)  # a cycle through more would load each network again
def _load_network(card: EncoderCard, folder: Path) -> EncoderNetwork:
    return EncoderNetwork(open_onnx_session(load_content(card, folder)), card)
