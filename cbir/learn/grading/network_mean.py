"""The mean of several tuned networks, whose errors partly cancel each other."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.grading.grading_network import GradingNetwork, mean_and_max
from cbir.learn.grading.network_trunk import NetworkTrunk
from cbir.learn.grading.picture_maps import PictureMaps
from cbir.system.cancellation import checkpoint


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
