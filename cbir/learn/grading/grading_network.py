"""Last stages of networks that were tuned on grades, run by onnxruntime: maps to expected grades. Needs no torch."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import built_in
from cbir.descriptors.encoders.encoder_network import run_session
from cbir.descriptors.encoders.network_writers import EfficientNetLite
from cbir.descriptors.networks.onnx_session import open_onnx_session
from cbir.errors import InvalidInput
from cbir.learn.grading.picture_maps import MIDDLE, NetworkTrunk, PictureMaps
from cbir.system.cancellation import checkpoint

LAST = "last"
EPSILON = 1e-5  # of torch's LayerNorm
HEAD = ("head.norm.weight", "head.norm.bias", "head.output.weight", "head.output.bias")

Floats = NDArray[np.float64]
Maps = NDArray[np.float16]
Tensors = Mapping[str, NDArray[np.float16]]


class GradingNetwork:
    """Tuned stages of an encoder, and a head. Thread-safe.

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
        self.encoder, self.tensors, self.levels, self.window = encoder, tensors, levels, window
        self.mirror = mirror
        weights, source = built_in.read_lite_weights(encoder)
        tuned = {name: tensors[name] for name in tensors if name not in HEAD}
        shapes = {name: weights[name].shape if name in weights else None for name in tuned}
        if any(tuned[name].shape != shape for name, shape in shapes.items()) or not set(HEAD) <= set(tensors):
            raise InvalidInput(
                f"the tuned weights do not fit the encoder {encoder}; run `cbir grade fit` again"
            )
        network = EfficientNetLite({**weights, **tuned}, source.side, source.deeper)
        self._session = open_onnx_session(network.write({LAST}, after=MIDDLE))
        self._head = [np.asarray(tensors[name], np.float32) for name in HEAD]

    def orientations(self) -> tuple[bool, ...]:
        """Return for each pass through the network whether it takes the mirror image."""
        return (False, True) if self.mirror else (False,)

    def grade(self, maps: Maps) -> float:
        """Return the expected grade of a picture from its maps in each orientation, (1 or 2, 112, side, side)."""
        return float(np.mean([self._run(one) for one in maps.astype(np.float32)]))

    def _run(self, maps: NDArray[np.float32]) -> float:
        values = mean_and_max(run_session(self._session, [LAST], maps[None])[LAST])[0]
        scale, shift, weight, bias = self._head
        normal = (values - values.mean()) / np.sqrt(values.var() + EPSILON)
        logits = weight @ (normal * scale + shift) + bias
        steps = np.diff(self.levels) / (1.0 + np.exp(-logits.astype(np.float64)))
        return float(self.levels[0] + steps.sum())


def mean_and_max(maps: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return mean and maximum (n, 2 channels) of each channel of maps (n, channels, height, width)."""
    values = maps.astype(np.float32)
    return np.concatenate([values.mean(axis=(2, 3)), values.max(axis=(2, 3))], axis=1)


class NetworkMean:
    """Mean of the expected grades of `networks`, at least one, of the same encoder. Thread-safe."""

    def __init__(self, networks: Sequence[GradingNetwork]) -> None:
        self.networks = tuple(networks)
        self._trunk = NetworkTrunk(self.networks[0].encoder)

    def grade(self, picture: NDArray[np.uint8]) -> tuple[float, NDArray[np.float32]]:
        """Return the expected grade of a grey picture (side, side), and values (224,) of the first network's window.

        Raises InvalidInput if it is no such picture.
        """
        if picture.ndim != 2 or picture.shape[0] != picture.shape[1] or picture.dtype != np.uint8:
            raise InvalidInput("the grader was fitted to pictures, which this is not; send the image again")
        maps = {
            window: np.stack([self._trunk.maps(picture, window, flip) for flip in network.orientations()])
            for window, network in {network.window: network for network in self.networks}.items()
        }
        grades = [network.grade(maps[network.window]) for network in self.networks]
        return float(np.mean(grades)), mean_and_max(maps[self.networks[0].window][:1])[0]

    def grade_all(self, pictures: PictureMaps) -> NDArray[np.float64]:
        """Return the expected grades (n,) of pictures."""
        grades = np.empty((len(self.networks), len(pictures)))
        for row in range(len(pictures)):
            checkpoint()
            for number, network in enumerate(self.networks):
                flips = np.array(network.orientations())
                grades[number, row] = network.grade(
                    pictures.maps(network.window, np.full(len(flips), row), flips)
                )
            pictures.show("grading", row + 1, len(pictures))
        return cast(NDArray[np.float64], grades.mean(axis=0))
