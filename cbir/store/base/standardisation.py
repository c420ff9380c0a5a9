"""Standardisation of descriptor values: mean 0 and deviation 1 over a collection, times the weight of each part."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir import descriptors
from cbir.store.base.profile import Profile

CONSTANT = 1e-6  # deviations below this share of the mean are rounding, not information


@dataclass(frozen=True, eq=False)
class Standardisation:
    """normalised = (raw - mean) * scale, with scale = sqrt(weight of the part) / deviation.

    mean, scale: (d,) float32. fitted_on: number of images that they were computed from.
    """

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    fitted_on: int
    version: ClassVar[int] = 1
    components: ClassVar[None] = None

    @property
    def dimensions(self) -> int:
        """Length of a normalised vector."""
        return len(self.mean)

    def normalise(self, raw: NDArray[np.float32], overwrite: bool = False) -> NDArray[np.float32]:
        """Normalise raw vectors, (d,) or (n, d) float32; `overwrite`: into their own memory."""
        centred = np.subtract(raw, self.mean, out=raw if overwrite else None)
        return np.multiply(centred, self.scale, out=centred)

    def is_close(self, normalised: NDArray[np.float32], raw: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return (n,) bool: which of the vectors (n, d) are, bit by bit, the normalised ones of `raw`."""
        equal: NDArray[np.bool_] = (self.normalise(raw) == normalised).all(axis=1)
        return equal

    def to_json(self) -> str:
        """Serialise to text that `normalisation.read_statistics` reads back bit by bit."""
        return json.dumps(
            {"mean": self.mean.tolist(), "scale": self.scale.tolist(), "fitted_on": self.fitted_on}
        )


def fit_standardisation(raw: NDArray[np.float32], profile: Profile) -> Standardisation:
    """Compute the statistics of raw vectors (n, d) for a profile; a constant dimension is not scaled."""
    descriptor = descriptors.get(profile.descriptor)
    mean = np.zeros(descriptor.dimensions)
    deviation = np.ones(descriptor.dimensions)
    if profile.normalisation == "standardise" and len(raw):
        mean, deviation = _mean_and_deviation(raw)
    if profile.normalisation == "beside":
        start = descriptor.parts[0].stop  # of the descriptors that follow the embedding
        if len(raw):
            mean[start:], deviation[start:] = _mean_and_deviation(raw[:, start:])
        deviation[start:] *= np.sqrt(descriptor.dimensions - start)
        deviation /= np.sqrt(descriptor.dimensions)
    weight = np.ones(descriptor.dimensions)
    for part in descriptor.parts:
        weight[part.start : part.stop] = profile.weights.get(part.name, 1.0)
    return Standardisation(
        mean.astype(np.float32), (np.sqrt(weight) / deviation).astype(np.float32), len(raw)
    )


def _mean_and_deviation(raw: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of each column, deviation 1 for a constant one."""
    mean = raw.mean(axis=0, dtype=np.float64)
    return mean, without_constants(mean, _deviation(raw, mean))


def without_constants(mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `deviation` (d,), 1 where the values are constant."""
    return np.where(deviation <= CONSTANT * np.maximum(np.abs(mean), 1.0), 1.0, deviation)


def _deviation(raw: NDArray[np.float32], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation of each column, block by block to avoid a second copy of `raw`."""
    total = np.zeros(raw.shape[1])
    for start in range(0, len(raw), 65536):
        total += ((raw[start : start + 65536] - mean) ** 2).sum(axis=0)
    return np.sqrt(total / len(raw))
