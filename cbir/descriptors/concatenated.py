"""Concatenation of a network, a trained embedding or an encoder, and a hand-crafted descriptor.

A network need not separate what its training set did not show; a descriptor knows no classes at all. Together they
retrieve better than either, most of all in classes that came after the training: bench/results/embeddings.md.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.descriptor import Batched, Descriptor, Part, Parts
from cbir.descriptors.embedding_descriptor import JOIN
from cbir.images import Image

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
