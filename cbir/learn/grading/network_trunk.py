"""First stages of an encoder, which tuning leaves as they are: a window of a picture to maps."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import built_in
from cbir.descriptors.encoders.efficientnet_lite import EfficientNetLite
from cbir.descriptors.encoders.encoder_card import EncoderInput
from cbir.descriptors.encoders.encoder_network import normalise_pixels, run_session
from cbir.descriptors.networks.onnx_session import open_onnx_session
from cbir.learn.grading.image_window import cut_window

MIDDLE = "middle"  # output of the network whose maps are kept


class NetworkTrunk:
    """Stages of an encoder made from EfficientNet-Lite, up to the maps that tuned blocks take. Thread-safe.

    Raises InvalidInput if the weights of the encoder are missing.
    """

    def __init__(self, encoder: str) -> None:
        weights, source = built_in.read_lite_weights(encoder)
        content = EfficientNetLite(weights, source.side, source.deeper).write({MIDDLE})
        self._session = open_onnx_session(content)
        self._input = cast(EncoderInput, built_in.CARDS[encoder].input)

    def maps(self, picture: NDArray[np.uint8], window: str, mirrored: bool) -> NDArray[np.float16]:
        """Return maps (112, side, side) of the window of a square grey picture, perhaps mirrored."""
        pixels = network_input(picture, window, self._input.width, mirrored)
        maps = run_session(self._session, [MIDDLE], normalise_pixels(pixels, self._input))[MIDDLE]
        return cast(NDArray[np.float16], maps[0].astype(np.float16))


def network_input(picture: NDArray[np.uint8], window: str, side: int, mirrored: bool) -> NDArray[np.uint8]:
    """Return the window of a grey picture as three equal channels, (side, side, 3), perhaps mirrored."""
    cut: NDArray[Any] = cut_window(picture, window, side)
    return np.repeat((cut[:, ::-1] if mirrored else cut)[:, :, None], 3, axis=2)
