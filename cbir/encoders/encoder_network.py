"""ONNX networks of encoders, run by onnxruntime and pooled."""

import numpy as np
from numpy.typing import NDArray

from cbir.encoders.encoder_card import EncoderCard
from cbir.encoders.pooling import pool, pooling_matrix
from cbir.errors import InvalidInput
from cbir.models.onnx_session import open_session


class EncoderNetwork:
    """Session of a network, with its normalisation and pooling. Thread-safe."""

    def __init__(self, content: bytes, card: EncoderCard) -> None:
        """Load an ONNX network.

        Parameters
        ----------
        content : bytes
            ONNX file.
        card : EncoderCard
            Its input and outputs.

        Raises
        ------
        InvalidInput
            If onnxruntime cannot load it, or it has not the outputs that the card gives.
        """
        self._session = open_session(content)
        self._input = self._session.get_inputs()[0].name
        self._tensors = list(dict.fromkeys(output.tensor for output in card.outputs))
        names = [tensor.name for tensor in self._session.get_outputs()]
        if missing := [tensor for tensor in self._tensors if tensor not in names]:
            raise InvalidInput(f"the network has no output {missing[0]}; it has {', '.join(names)}")
        deviation = np.array(card.input.deviation)
        shape = (1, -1, 1, 1)
        self._factor = (1 / (card.input.scale * deviation)).astype(np.float32).reshape(shape)
        self._offset = (np.array(card.input.mean) / deviation).astype(np.float32).reshape(shape)
        blank = np.zeros((card.input.height, card.input.width, len(card.input.mean)), np.uint8)
        maps = self.run(blank)
        self._pooling = [
            (output.tensor, pooling_matrix(output, maps[output.tensor].shape)) for output in card.outputs
        ]

    def describe(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Describe a prepared image (height, width, channels): (dimensions,) float32."""
        maps = self.run(pixels)
        return np.concatenate([pool(maps[tensor], weights) for tensor, weights in self._pooling])

    def run(self, pixels: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
        """Return the outputs for a prepared image by their names."""
        values = np.multiply(pixels.transpose(2, 0, 1)[None], self._factor, dtype=np.float32)
        values -= self._offset
        return dict(zip(self._tensors, self._session.run(self._tensors, {self._input: values}), strict=True))
