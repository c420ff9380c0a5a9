"""Encoders by name or address on a hub: pretrained networks that turn images, and perhaps texts, into vectors."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.descriptors.encoders import built_in, encoder_files
from cbir.descriptors.encoders.encoder_files import (
    EncoderCard,
    EncoderInput,
    VolumeInput,
    read_text_files,
    text_paths,
)
from cbir.descriptors.encoders.encoder_network import EncoderNetwork, Prepared, fit_input
from cbir.descriptors.networks.model_card import check_onnxruntime, open_onnx_session
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.system.remedies import did_you_mean, install_command

__all__ = ["Encoder", "EncoderCard", "get", "is_encoder", "names"]

HUBS = ("torchvision", "timm", "hf")
LONGEST_NAME = 64  # of an encoder

_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}"
_ADDRESS = re.compile(rf"(torchvision|timm):({_WORD})|(hf):({_WORD}/{_WORD})")


class HubAddress(NamedTuple):
    """Network on a hub, one of HUBS; name: NAME, or ORG/NAME on Hugging Face."""

    hub: str
    name: str

    def __str__(self) -> str:
        return f"{self.hub}:{self.name}"

    @property
    def encoder_name(self) -> str:
        """Name of the stored encoder, which file systems take: `hf:ORG/NAME` is stored as `hf-org--name`.

        Few networks share one, such as `hf:a/b--c` and `hf:a--b/c`: see `is_source`.
        """
        name = f"{self.hub}-{self.name.replace('/', '--')}".lower()
        if len(name) <= LONGEST_NAME:
            return name
        digest = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
        return f"{name[: LONGEST_NAME - 9]}-{digest}"

    def is_source(self, source: str) -> bool:
        """Return whether the source on a card, which begins with the address, is this network; case is ignored."""
        return re.split(r" |,", source, maxsplit=1)[0].lower() == str(self).lower()


def is_hub_address(text: str) -> bool:
    """Return whether a name begins with a hub; NETWORK+DESCRIPTOR is none."""
    hub, colon, name = text.partition(":")
    return hub in HUBS and bool(colon) and "+" not in name


def parse_hub_address(text: str) -> HubAddress:
    """Return the address that `text` is; raise InvalidInput if it is none."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text!r} is not a network on a hub: torchvision:NAME, timm:NAME or hf:ORG/NAME")
    return HubAddress(match[1] or match[3], match[2] or match[4])


TOKENS, MASK, VECTOR = "tokens", "mask", "vector"  # inputs and output of the network


class TextTower:
    """Network and tokenizer of an encoder's text tower, run by onnxruntime. Thread-safe.

    Raises InvalidInput if one of them is missing or damaged, or the library tokenizers is not installed.
    """

    def __init__(self, card: EncoderCard, folder: Path) -> None:
        if card.text is None:
            raise InvalidInput(f"the encoder {card.name} has no text tower: it cannot search by text")
        if find_spec("tokenizers") is None:
            raise InvalidInput(f"search by text needs tokenizers: {install_command('text')}")
        from tokenizers import Tokenizer

        files = read_text_files(folder, card)
        self._session: Any = open_onnx_session(files.network)
        self._tokenizer = Tokenizer.from_str(files.tokenizer.decode())
        self._inputs = [tensor.name for tensor in self._session.get_inputs()]

    def describe(self, text: str) -> NDArray[np.float32]:
        """Return the vector (d,) of a text, as the network gives it; a long text is cut."""
        encoding = self._tokenizer.encode(text)
        values = {TOKENS: encoding.ids, MASK: encoding.attention_mask}
        feed = {name: np.array([values[name]], np.int64) for name in self._inputs}
        return np.asarray(self._session.run([VECTOR], feed)[0][0], np.float32)


@lru_cache(maxsize=4)
def load_text_tower(card: EncoderCard, folder: Path) -> TextTower:
    """Return the text tower of a card in a folder of encoders, from memory if it was used before."""
    return TextTower(card, folder)


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

    @property
    def has_text(self) -> bool:
        """True if texts can be described too: there is a stored text tower, and tokenizers is installed."""
        if self.card.text is None or find_spec("tokenizers") is None:
            return False
        return all(path.is_file() for path in text_paths(self.folder, self.card))

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


def names(folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of all encoders: built in, then those in `folder`, by default the setting encoder_folder."""
    stored = encoder_files.stored_names(folder or settings.load().encoder_folder)
    return (*built_in.CARDS, *(name for name in stored if name not in built_in.CARDS))


def is_encoder(name: str) -> bool:
    """Return whether a name is that of an encoder, or a network on a hub, stored or not."""
    return is_hub_address(name) or name in names()


def get(name: str, folder: Path | None = None) -> Encoder:
    """Return the encoder called `name`, or the stored one of a network on a hub, such as `hf:ORG/NAME`.

    `folder` is that of stored encoders, by default the setting encoder_folder. Raises InvalidInput if there is no
    such encoder, its card is damaged, or it is not from the hub's network.
    """
    folder = folder or settings.load().encoder_folder
    if is_hub_address(name):
        address = parse_hub_address(name)
        if address.encoder_name not in names(folder):
            raise InvalidInput(f"{address} is not stored yet; fetch it: cbir encoder get {address}")
        card = encoder_files.read_card(folder, address.encoder_name)
        if not address.is_source(card.source):
            raise InvalidInput(
                f"the encoder {card.name} is not {address}: it is from {card.source}; fetch {address} by another "
                f"name, and use that: cbir encoder get {address} --name NAME"
            )
        return Encoder(card, folder)
    if name in built_in.CARDS:
        return Encoder(built_in.CARDS[name], folder)
    if name not in names(folder):
        advice = did_you_mean(name, names(folder)) or encoder_files.unreadable_advice(folder)
        raise InvalidInput(
            f"there is no encoder {name!r}{advice or ';'} choose one of {', '.join(names(folder))}"
        )
    return Encoder(encoder_files.read_card(folder, name), folder)
