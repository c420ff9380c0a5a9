"""The space in which neighbours are told: parts balanced, the collection's own correlations damped, unit length.

Raw or standardised descriptors measure what varies most, and what many dimensions repeat. Dividing by a power of the
collection's covariance (learnt whitening: Jegou & Chum 2012, Negative evidences and co-occurrences in image
retrieval) lets rare variation speak; a full division would let noise speak.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POWER = 0.35  # of the covariance that is divided by; 0.5 whitens
FLOOR = 0.5  # added to its eigenvalues, in units of their mean: directions without variance stay small
SAMPLE = 5000  # images that the covariance is learnt from
LEAST = 1e-12  # a length below this is no direction

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Space:
    """x stands at (x - centre) @ projection, scaled to length 1. centre: (d,) float32, projection: (d, d) float32."""

    centre: Floats
    projection: Floats

    def place(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Where vectors (n, d) stand, (n, d) float32 of length 1, and their lengths (n,) before that.

        A vector at the centre has no direction: it stays 0.
        """
        placed = (vectors - self.centre) @ self.projection
        lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", placed, placed)), np.float32(LEAST))
        placed /= lengths[:, None]
        return placed.astype(np.float32, copy=False), lengths.astype(np.float32, copy=False)


def fit_space(vectors: Floats, parts: Sequence[tuple[int, int]] = ()) -> Space:
    """The space of a collection's normalised vectors (n, d), of which SAMPLE at most are read.

    parts: start and stop of the descriptor's parts; each weighs as the root of its dimensions, so that a part of
    150 does not drown one of 6. Without them all dimensions weigh the same.
    """
    dimensions = vectors.shape[1]
    weight = np.ones(dimensions)
    for start, stop in parts:
        weight[start:stop] = (stop - start) ** -0.25  # of a value; its square enters a distance
    if not len(vectors):
        return Space(np.zeros(dimensions, np.float32), np.diag(weight).astype(np.float32))
    chosen = np.unique(np.linspace(0, len(vectors) - 1, min(SAMPLE, len(vectors))).astype(np.int64))
    sample = vectors[chosen].astype(np.float64)
    centre = sample.mean(axis=0)
    weighted = (sample - centre) * weight
    variances, directions = np.linalg.eigh(weighted.T @ weighted / len(sample))
    variances = np.maximum(variances, 0.0)
    damped = (variances / max(float(variances.mean()), LEAST) + FLOOR) ** -POWER
    projection = weight[:, None] * (directions * damped) @ directions.T
    return Space(centre.astype(np.float32), projection.astype(np.float32))
