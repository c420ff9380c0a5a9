"""Pooling of the maps of a network."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.encoder_card import EncoderOutput
from cbir.descriptors.networks.window_means import window_means
from cbir.errors import InvalidInput


def pooling_matrix(output: EncoderOutput, shape: Sequence[int]) -> NDArray[np.float32] | None:
    """Return the weights (values, places) that average a map (1, channels, height, width); None without averages.

    Raises InvalidInput if the shape does not fit the pooling or the dimensions of the card.
    """
    if output.pooling == "none":
        if len(shape) != 2 or shape[0] != 1:
            raise InvalidInput(f"output {output.tensor} has shape {_text(shape)}, no vector: pool it")
        weights, dimensions = None, shape[1]
    else:
        if len(shape) != 4 or shape[0] != 1:
            raise InvalidInput(f"output {output.tensor} has shape {_text(shape)}, which cannot be pooled: "
                               "it takes 1 x channels x height x width")  # fmt: skip
        grid, window = (output.grid, output.window) if output.pooling == "grid" else (1, 1.0)
        weights = None if output.pooling == "max" else window_means(shape[2], shape[3], grid, window)
        dimensions = grid * grid * shape[1]
    if dimensions != output.dimensions:
        raise InvalidInput(f"output {output.tensor} gives {dimensions} values, not {output.dimensions} "
                           "as the card says")  # fmt: skip
    return weights


def pool(values: NDArray[np.float32], weights: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Average a map by the weights of `pooling_matrix`: window by window, the channels of each.

    Without weights, return the maximum of each channel of a map, or a vector (1, values) as it is.
    """
    if weights is None:
        return (values.max(axis=(2, 3)) if values.ndim == 4 else values).ravel()
    places = values.reshape(values.shape[1], -1)
    return np.asarray(weights @ places.T).ravel()


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
