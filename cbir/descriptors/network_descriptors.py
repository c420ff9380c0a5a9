"""Vectors of trained embeddings and pretrained encoders, alone or beside a hand-crafted descriptor.

An embedding's descriptor is named after the hash of its weights, an encoder's after the encoder and the hash of its
card. A network need not separate what its training set did not show; a hand-crafted descriptor knows no classes at
all. Together they retrieve better than either, most of all in classes that came after the training:
bench/results/embeddings.md.
"""

import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from cbir.descriptors import encoders
from cbir.descriptors.descriptor import Batched, Descriptor, Part, Parts
from cbir.descriptors.encoders import Encoder, built_in, encoder_files
from cbir.descriptors.encoders.device_encoder import describe_on, runs_on_gpu
from cbir.descriptors.encoders.encoder_files import EncoderInput, VolumeInput
from cbir.descriptors.encoders.encoder_network import Prepared, fit_image, normalise_pixels
from cbir.descriptors.networks import model_card
from cbir.descriptors.networks.model_card import OnnxNetwork, load_onnx_network
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.images.scaling import pad_resize
from cbir.images.volume import VolumeGrid
from cbir.system.device import Device, resolve_device
from cbir.system.device_failure import (
    device_failures,
    free_cached_memory,
    full_precision,
    in_pieces,
    network_batch,
    on_gpu_or_cpu,
)
from cbir.system.remedies import install_command

# Hash of the weights, dimensions, and the descriptor that is concatenated: see `Concatenated`.
EMBEDDING_NAME = re.compile(r"embedding:([0-9a-f]{16}):([0-9]{1,4})(?:\+([a-z0-9_]+))?")
JOIN = "+"  # between the folder of a model and the name of a descriptor
BATCH = 64  # images per run of the network on a CPU
DEVICE_TOLERANCE = 1e-4  # largest difference of a value between a GPU and a CPU, of vectors of length 1


def descriptor_name(folder: Path) -> str:
    """Return the name of the descriptor whose model is in `folder`.

    Raises NotFound if there is no model, InvalidInput if it is something else.
    """
    card = model_card.read_embedding_card(folder)
    return f"embedding:{card['sha256'][:16]}:{card['model']['dimensions']}"


class EmbeddingDescriptor:
    """Output of a network for the image: (dimensions,) float32 of length 1.

    The image is grey and padded, unless the embedding began as a pretrained encoder: then it is as that takes it.

    The weights are read with the first image; InvalidInput is raised then if they are not those that the name gives.
    """

    def __init__(self, name: str, model: Path | None = None, device: Device = "auto") -> None:
        """Set up the descriptor.

        Parameters
        ----------
        name : str
            Name with the hash of the weights, from `descriptor_name`.
        model : Path, optional
            Folder of the model; needed to describe images.
        device : {"auto", "cpu", "cuda"}
            Device that the network runs on.

        Raises
        ------
        InvalidInput
            If `name` is not the name of an embedding.
        """
        match = EMBEDDING_NAME.fullmatch(name)
        if match is None or match[3]:
            raise InvalidInput(f"{name!r} is not the name of an embedding")
        self.name = name
        self.dimensions = int(match[2])
        self.parts: Parts = (Part("embedding", 0, self.dimensions),)
        self._model, self._device = model, device

    def __call__(self, image: Image) -> NDArray[np.float32]:
        return np.asarray(self.describe_batch([self.prepare(image)])[0])

    def prepare(self, image: Image) -> NDArray[np.uint8]:
        """Reduce `image` to the network's input: (side, side), or that of the encoder."""
        shape = _encoder_input(self.name, self._folder())
        if shape is not None:
            return fit_image(image, shape)
        return pad_resize(image, int(_read_card(self.name, self._folder())["model"]["side"]))

    def describe_batch(self, inputs: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Describe n prepared images: (n, dimensions) float32."""
        device = resolve_device(self._device)
        if device == "cpu":
            return self._described(inputs, device)

        def on_cpu() -> NDArray[np.float32]:
            _load_network.cache_clear()  # frees the weights on the GPU
            free_cached_memory()
            return self._described(inputs, "cpu")

        return on_gpu_or_cpu(self._device, lambda: self._described(inputs, "cuda"), on_cpu)

    def batches_on_gpu(self) -> bool:
        """Return whether the network runs on a GPU; one that began as an encoder runs on the CPU.

        Raises InvalidInput if the device is "cuda" and no GPU can be used.
        """
        return resolve_device(self._device) == "cuda" and _encoder_input(self.name, self._folder()) is None

    def _described(self, inputs: list[NDArray[np.uint8]], device: str) -> NDArray[np.float32]:
        shape = _encoder_input(self.name, self._folder())
        network = _load_network(self.name, self._folder(), device)
        vectors = [np.empty((0, self.dimensions), np.float32)]
        if shape is not None:  # one by one: larger batches leave the cache and are slower
            return np.concatenate(vectors + [network(normalise_pixels(pixels, shape)) for pixels in inputs])

        def run(rows: slice) -> NDArray[np.float32]:
            pixels = np.stack(inputs[rows])[:, None]
            return network(pixels.astype(np.float32) / np.float32(255.0))

        with device_failures("description", device):
            on_gpu = device == "cuda" and inputs
            size = network_batch(4 * inputs[0].size) if on_gpu else BATCH
            vectors += in_pieces(run, len(inputs), size)
        return np.concatenate(vectors)

    def _folder(self) -> Path:
        if self._model is None:
            raise InvalidInput(f"the model of {self.name} is not available; name its folder as the profile")
        return self._model


@lru_cache(maxsize=2)
def _read_card(name: str, folder: Path) -> dict[str, Any]:
    """Read the card of the model: a process that only prepares images does not load the weights."""
    card = model_card.read_embedding_card(folder)
    if not name.startswith(f"embedding:{card['sha256'][:16]}:"):
        raise InvalidInput(f"{folder} now holds another model than {name}")
    return card


@lru_cache(maxsize=2)
def _encoder_input(name: str, folder: Path) -> EncoderInput | None:
    """Return the input of the encoder that the model began as; None if it did not."""
    card = _read_card(name, folder)
    try:
        return EncoderInput.model_validate(card["input"]) if "input" in card else None
    except ValidationError as error:
        raise InvalidInput(f"{folder} has a damaged card; train the embedding again") from error


@lru_cache(maxsize=2)
def _load_network(name: str, folder: Path, device: str) -> OnnxNetwork:
    card = _read_card(name, folder)
    if "input" in card:
        network = load_onnx_network(folder, card)
        if network is None:
            raise InvalidInput(
                f"{folder / model_card.EMBEDDING_ONNX} or onnxruntime is missing; copy the whole folder"
            )
        return network
    network = load_onnx_network(folder, card) if device == "cpu" else None
    return network or _torch_network(folder, device)


def _torch_network(folder: Path, device: str) -> OnnxNetwork:
    try:
        import torch

        from cbir.descriptors.networks.embedder import load_embedder
    except ModuleNotFoundError as error:
        raise InvalidInput(f"an embedding needs torch: {install_command('deep')}") from error
    embedder = load_embedder(folder)
    with device_failures("weights of an embedding", device):
        network = embedder.to(device)

    def run(images: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.inference_mode(), full_precision():
            vectors: NDArray[np.float32] = network(torch.from_numpy(images).to(device)).float().cpu().numpy()
        return vectors

    return run


# Encoder, hash of its card, dimensions, and the descriptor that is concatenated: see `Concatenated`.
ENCODER_NAME = re.compile(
    rf"encoder:({encoder_files.NAME.pattern}):([0-9a-f]{{16}}):([0-9]{{1,5}})(?:\+([a-z0-9_]+))?"
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
    match = ENCODER_NAME.fullmatch(name)
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
    match = ENCODER_NAME.fullmatch(name)
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
        match = ENCODER_NAME.fullmatch(name)
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


BatchInput = tuple[Any, NDArray[np.float32]]


class Concatenated:
    """Values of `network`, then those of `other`: (dimensions,) float32."""

    def __init__(self, network: Batched, other: Descriptor) -> None:
        self._network, self._other = network, other
        self.name = network.name + JOIN + other.name
        self.dimensions = network.dimensions + other.dimensions
        offset = network.dimensions
        shifted = [Part(part.name, offset + part.start, offset + part.stop) for part in other.parts]
        self.parts: Parts = (*network.parts, *shifted)

    def __call__(self, image: Image) -> NDArray[np.float32]:
        return np.concatenate([self._network(image), self._other(image)])

    def prepare(self, image: Image) -> BatchInput:
        """Return the network's input for `image` and the values of the other descriptor."""
        return self._network.prepare(image), self._other(image)

    def describe_batch(self, inputs: list[BatchInput]) -> NDArray[np.float32]:
        """Describe n prepared images: (n, dimensions) float32; raises InvalidInput without the model's folder."""
        others = np.array([values for _, values in inputs], np.float32).reshape(-1, self._other.dimensions)
        return np.hstack([self._network.describe_batch([pixels for pixels, _ in inputs]), others])

    def batches_on_gpu(self) -> bool:
        """Return whether the network describes many images on a GPU."""
        return self._network.batches_on_gpu()
