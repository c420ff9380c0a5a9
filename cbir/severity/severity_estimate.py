"""What a Bayesian ranker says of images."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SeverityEstimate:
    """Mean and variance of the stochastic passes, and features for strategies that look at variety.

    mean: (n,) float32, the higher, the more severe. variance: (n,) float32, 0 or above. features: (n, d) float32,
    what the last layer sees, mean of the passes. scores: (T, n) float32, of each pass; None where they are not kept.
    """

    mean: Floats
    variance: Floats
    features: Floats
    scores: Floats | None = None

    def __len__(self) -> int:
        return len(self.mean)
