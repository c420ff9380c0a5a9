"""Vectors of a trained network. The descriptor is a model in a folder, known by the hash of its weights."""

import re
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import Part
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.images.pad_resize import pad_resize
from cbir.models import embedding_card
from cbir.models.onnx_network import Network, network_of

# Hash of the weights, dimensions, and the descriptor beside it: see `beside`.
NAME = re.compile(r"embedding:([0-9a-f]{16}):([0-9]{1,4})(?:\+([a-z0-9_]+))?")
JOIN = "+"  # between the folder of a model and the name of a descriptor
BATCH = 64  # images that go through the network together

_folders: dict[str, Path] = {}  # models that this process has met, by the hash of their weights


def register(folder: Path) -> str:
    """Make the model in `folder` known to this process; the name of its descriptor.

    Raises NotFound where there is none, InvalidInput where it is something else.
    """
    card = embedding_card.read(folder)
    digest = card["sha256"][:16]
    if digest not in _folders or not embedding_card.is_model(_folders[digest]):
        _folders[digest] = folder.resolve()
    return f"embedding:{digest}:{card['model']['dimensions']}"


def folder_of(name: str) -> Path:
    """Where the model of a descriptor lies; raises InvalidInput where this process has not met it."""
    found = NAME.fullmatch(name)
    if found is None or found[1] not in _folders:
        raise InvalidInput(f"the model of {name} is not known here; name its folder as the profile")
    return _folders[found[1]]


class EmbeddingDescriptor:
    """An image, grey and square, through the network: (dimensions,) float32 of length 1.

    The weights are read with the first image, on the device of the settings; a file that is not the one the name
    tells is refused then (InvalidInput).
    """

    def __init__(self, name: str) -> None:
        found = NAME.fullmatch(name)
        if found is None or found[3]:
            raise InvalidInput(f"{name!r} is not the name of an embedding")
        self.name = name
        self.dimensions = int(found[2])
        self.parts: tuple[Part, ...] = (Part("embedding", 0, self.dimensions),)

    def __call__(self, image: Image) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.all_of([self.prepared(image)])[0]
        return vector

    def prepared(self, image: Image) -> NDArray[np.uint8]:
        """What the network is given of an image: (side, side), far smaller than the image."""
        return pad_resize(image, self._network()[1])

    def all_of(self, prepared: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """The vectors (n, dimensions) of n prepared images, BATCH at a time."""
        network, _ = self._network()
        found = [np.empty((0, self.dimensions), np.float32)]
        for start in range(0, len(prepared), BATCH):
            pixels = np.stack(prepared[start : start + BATCH])[:, None]
            found.append(network(pixels.astype(np.float32) / np.float32(255.0)))
        return np.concatenate(found)

    def _network(self) -> tuple[Network, int]:
        return _loaded(self.name, folder_of(self.name))


@lru_cache(maxsize=2)
def _loaded(name: str, folder: Path) -> tuple[Network, int]:
    """The network, on the device of the settings, and the side of its images."""
    from cbir import settings
    from cbir.hardware import resolve_device

    card = embedding_card.read(folder)
    if not name.startswith(f"embedding:{card['sha256'][:16]}:"):
        raise InvalidInput(f"{folder} holds another model by now than {name}")
    device = resolve_device(settings.load().device)
    found = network_of(folder, card) if device == "cpu" else None
    return found or _of_torch(folder, device), int(card["model"]["side"])


def _of_torch(folder: Path, device: str) -> Network:
    try:
        import torch

        from cbir.models.embedder import load
    except ModuleNotFoundError as error:
        raise InvalidInput("an embedding needs torch: pip install 'cbir[deep]'") from error
    network = load(folder).to(device)

    def run(images: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.inference_mode():
            vectors: NDArray[np.float32] = network(torch.from_numpy(images).to(device)).float().cpu().numpy()
        return vectors

    return run
