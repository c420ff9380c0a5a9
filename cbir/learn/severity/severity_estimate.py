"""Severity estimates of a Bayesian ranker."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SeverityEstimate:
    """Mean and variance of the stochastic passes, and features for strategies that use diversity.

    `mean` (n,) float32 is higher for more severe images; `variance` (n,) float32; `features` (n, d) float32 are the
    inputs of the last layer, averaged over the passes; `scores` (T, n) float32 are those of each pass, if stored.
    `encoder_features` (n, k) float32 are those of the pretrained encoder, for a strategy that needs them.
    """

    mean: Floats
    variance: Floats
    features: Floats
    scores: Floats | None = None
    encoder_features: Floats | None = None

    def __len__(self) -> int:
        return len(self.mean)
