"""The mean of several tuned networks, whose errors partly cancel each other."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.cancellation import checkpoint
from cbir.grading.grading_network import GradedPictures, GradingNetwork


class NetworkMean:
    """Mean of the expected grades of `networks`, at least one. Thread-safe."""

    def __init__(self, networks: Sequence[GradingNetwork]) -> None:
        self.networks = tuple(networks)

    def grade(self, picture: NDArray[np.uint8]) -> tuple[float, NDArray[np.float32]]:
        """Return the expected grade of a grey picture (side, side), and the values (224,) of the first network.

        Raises InvalidInput if it is no such picture.
        """
        results = [network.grade(picture) for network in self.networks]
        return float(np.mean([grade for grade, _ in results])), results[0][1]

    def grade_all(
        self, pictures: NDArray[np.uint8], show: Callable[[int, int], Any] = lambda done, total: None
    ) -> GradedPictures:
        """Grade pictures (n, side, side), one by one."""
        graded = []
        for done, picture in enumerate(pictures, start=1):
            checkpoint()
            graded.append(self.grade(picture))
            show(done, len(pictures))
        grades, values = [grade for grade, _ in graded], [values for _, values in graded]
        return GradedPictures(np.array(grades, np.float64), np.array(values, np.float32))
