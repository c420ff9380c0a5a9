"""A network that was tuned on grades, run by onnxruntime: pictures to expected grades. Needs no torch."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cbir.encoders import built_in
from cbir.encoders.efficientnet_lite import EfficientNetLite
from cbir.encoders.encoder_card import EncoderInput
from cbir.encoders.encoder_network import normalise_pixels, run_session
from cbir.errors import InvalidInput
from cbir.grading.picture_maps import MIDDLE, network_input
from cbir.models.onnx_session import open_onnx_session

LAST = "last"
EPSILON = 1e-5  # of torch's LayerNorm
HEAD = ("head.norm.weight", "head.norm.bias", "head.output.weight", "head.output.bias")

Floats = NDArray[np.float64]
Tensors = Mapping[str, NDArray[np.float16]]


class GradedPictures(NamedTuple):
    """Expected grades (n,) of pictures, and values (n, 224) that tell how alike they are, from layers not tuned."""

    grades: Floats
    values: NDArray[np.float32]


class GradingNetwork:
    """Network of an encoder with tuned tensors and a head. Thread-safe.

    Parameters
    ----------
    encoder : str
        Encoder made from EfficientNet-Lite.
    tensors : mapping
        Tuned tensors by the names of the state dict, and those of the head.
    levels : (k + 1,) float64
        Grades, ascending.
    window : str
        Part of the picture that the network sees.
    mirror : bool
        Average over the picture and its mirror image.

    Raises
    ------
    InvalidInput
        If the weights of the encoder are missing, or the tensors do not fit it.
    """

    def __init__(self, encoder: str, tensors: Tensors, levels: Floats, window: str, mirror: bool) -> None:
        self.tensors, self.levels, self.window, self.mirror = tensors, levels, window, mirror
        weights, source = built_in.read_lite_weights(encoder)
        tuned = {name: tensors[name] for name in tensors if name not in HEAD}
        shapes = {name: weights[name].shape if name in weights else None for name in tuned}
        if any(tuned[name].shape != shape for name, shape in shapes.items()) or not set(HEAD) <= set(tensors):
            raise InvalidInput(
                f"the tuned weights do not fit the encoder {encoder}; run `cbir grade fit` again"
            )
        content = EfficientNetLite({**weights, **tuned}, source.side, source.deeper).write({MIDDLE, LAST})
        self._session = open_onnx_session(content)
        self._input = cast(EncoderInput, built_in.CARDS[encoder].input)
        self._head = [np.asarray(tensors[name], np.float32) for name in HEAD]

    def grade(self, picture: NDArray[np.uint8]) -> tuple[float, NDArray[np.float32]]:
        """Return the expected grade of a grey picture (side, side), and its values (224,).

        Raises InvalidInput if it is no such picture.
        """
        if picture.ndim != 2 or picture.shape[0] != picture.shape[1] or picture.dtype != np.uint8:
            raise InvalidInput("the grader was fitted to pictures, which this is not; send the image again")
        results = [self._run(picture, mirrored) for mirrored in ((False, True) if self.mirror else (False,))]
        return float(np.mean([grade for grade, _ in results])), results[0][1]

    def _run(self, picture: NDArray[np.uint8], mirrored: bool) -> tuple[float, NDArray[np.float32]]:
        pixels = network_input(picture, self.window, self._input.width, mirrored)
        maps = run_session(self._session, [MIDDLE, LAST], normalise_pixels(pixels, self._input))
        values = mean_and_max(maps[LAST])[0]
        scale, shift, weight, bias = self._head
        normal = (values - values.mean()) / np.sqrt(values.var() + EPSILON)
        logits = weight @ (normal * scale + shift) + bias
        steps = np.diff(self.levels) / (1.0 + np.exp(-logits.astype(np.float64)))
        return float(self.levels[0] + steps.sum()), mean_and_max(maps[MIDDLE])[0]


def mean_and_max(maps: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return mean and maximum (n, 2 channels) of each channel of maps (n, channels, height, width)."""
    values = maps.astype(np.float32)
    return np.concatenate([values.mean(axis=(2, 3)), values.max(axis=(2, 3))], axis=1)
