"""A trained embedding and a descriptor made by hand, one after the other.

What a network was not shown it need not tell apart; a descriptor knows of no classes at all. Together they find more
than either, most of all in classes that came after the training: bench/results/embeddings.md.
"""

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import Descriptor, Part
from cbir.descriptors.embedding_descriptor import JOIN, EmbeddingDescriptor
from cbir.images import Image

Prepared = tuple[NDArray[np.uint8], NDArray[np.float32]]


class Concatenated:
    """The values of `network`, then those of `other`: (dimensions,) float32."""

    def __init__(self, network: EmbeddingDescriptor, other: Descriptor) -> None:
        self._network, self._other = network, other
        self.name = network.name + JOIN + other.name
        self.dimensions = network.dimensions + other.dimensions
        moved = [
            Part(part.name, network.dimensions + part.start, network.dimensions + part.stop)
            for part in other.parts
        ]
        self.parts: tuple[Part, ...] = (*network.parts, *moved)

    def __call__(self, image: Image) -> NDArray[np.float32]:
        return np.concatenate([self._network(image), self._other(image)])

    def prepared(self, image: Image) -> Prepared:
        """What the network is given of an image, and the values of the other."""
        return self._network.prepared(image), self._other(image)

    def all_of(self, prepared: list[Prepared]) -> NDArray[np.float32]:
        """The vectors (n, dimensions), float32, of n prepared images; InvalidInput where the model is not known."""
        others = np.array([values for _, values in prepared], np.float32).reshape(-1, self._other.dimensions)
        return np.hstack([self._network.all_of([picture for picture, _ in prepared]), others])
