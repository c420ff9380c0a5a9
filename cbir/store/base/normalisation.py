"""Normalisation of raw descriptor values with statistics of a collection, in the way that its profile names.

A descriptor's values are standardised: mean 0 and deviation 1 over the collection, times the weight of each part. An
encoder's are projected. What all images of a collection have in common says nothing about one of them, and of a
network's thousand values most repeat each other: PCA on the collection itself (Jegou & Chum 2012) leaves some
hundreds of directions, and of those `learn_directions` makes the few that tell its images apart. A descriptor beside
the encoder is standardised.
"""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cbir import descriptors
from cbir.gallery.knn import learn_directions
from cbir.store.base.profile import Profile
from cbir.system.threads import OneBlasThread

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


LEAST_IMAGES = 1000  # that directions are computed from; of fewer they would fit these images alone

MOST_IMAGES = 100_000  # fitted again at each doubling until then, and never computed from more

COMPARED = 20_000  # images whose neighbours are found, at most

WIDE = 4  # principal directions that neighbours are compared in, for each one that is kept

SHORTEST = 1e-12  # a shorter vector has no direction

TOLERANCE = 1e-4  # of a value: products of matrices depend on how many rows are multiplied at a time

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Projection:
    """Transform of vectors: the first e values centred, projected and scaled to `length`, the others standardised.

    mean: (d,) float32. directions: (e, m) float32; None: the values are centred alone.
    scale: (d - e,) float32, of the others. fitted_on: number of images that they were computed from.
    version: 1, and one more with each fit of the collection.
    """

    mean: Floats
    directions: Floats | None
    scale: Floats
    length: float
    fitted_on: int
    version: int = 1

    @property
    def encoder_values(self) -> int:
        """Number e of values that come from the encoder."""
        return len(self.mean) - len(self.scale)

    @property
    def components(self) -> int | None:
        """Number m of directions; None if the values are centred alone."""
        return None if self.directions is None else self.directions.shape[1]

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Start and stop of each part of a normalised vector."""
        projected = self.components or self.encoder_values
        return (
            ((0, projected), (projected, projected + len(self.scale)))
            if len(self.scale)
            else ((0, projected),)
        )

    @property
    def dimensions(self) -> int:
        """Length of a normalised vector."""
        return self.parts[-1][1]

    def normalise(self, raw: Floats, overwrite: bool = False) -> Floats:
        """Normalise raw vectors (d,) or (n, d) float32 to (m + d - e,) or (n, m + d - e); never into their memory."""
        end = self.encoder_values
        values = raw[..., :end] - self.mean[:end]
        if self.directions is not None:
            values = values @ self.directions
        lengths = np.sqrt(np.einsum("...i,...i->...", values, values))
        values *= (np.float32(self.length) / np.maximum(lengths, np.float32(SHORTEST)))[..., None]
        if not len(self.scale):
            return values.astype(np.float32, copy=False)
        others = (raw[..., end:] - self.mean[end:]) * self.scale
        return np.concatenate([values, others], axis=-1, dtype=np.float32)

    def is_close(self, normalised: Floats, raw: Floats) -> NDArray[np.bool_]:
        """Return (n,) bool: which of the vectors (n, m) are the normalised ones of `raw`, but for rounding."""
        close: NDArray[np.bool_] = (np.abs(self.normalise(raw) - normalised) <= TOLERANCE).all(axis=1)
        return close

    def needs_refit(self, images: int) -> bool:
        """Return whether a collection of so many images has doubled since the fit, and is not yet large."""
        doubled = images >= 2 * max(self.fitted_on, 1) and self.fitted_on < MOST_IMAGES
        return doubled or self.fitted_on < LEAST_IMAGES <= images

    def to_json(self) -> str:
        """Serialise to text that `normalisation.read_statistics` reads back bit by bit."""
        arrays = {"mean": self.mean, "scale": self.scale, "directions": self.directions}
        texts = {name: None if array is None else _to_text(array) for name, array in arrays.items()}
        facts = {"length": self.length, "fitted_on": self.fitted_on, "version": self.version}
        return json.dumps({"kind": "projection", **texts, **facts})

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the projection with the fields of `to_json`."""
        mean, scale = _from_text(fields["mean"]), _from_text(fields["scale"])
        directions = fields["directions"] and _from_text(fields["directions"]).reshape(
            len(mean) - len(scale), -1
        )
        return cls(mean, directions, scale, fields["length"], fields["fitted_on"], fields["version"])


def _to_text(array: Floats) -> str:
    return base64.b64encode(array.astype("<f4").tobytes()).decode("ascii")


def _from_text(text: str) -> Floats:
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float32)


def fit_projection(pages: Iterable[Floats], profile: Profile, count: int, version: int = 1) -> Projection:
    """Fit a projection to the raw vectors of a collection.

    Parameters
    ----------
    pages : iterable of (n, d) float32
        All vectors, some at a time. At most MOST_IMAGES of them are read, evenly spread.
    profile : Profile
        Their profile: number of directions, weights of the parts.
    count : int
        Number of vectors in all.
    version : int
        Version of the fit.
    """
    parts = descriptors.get(profile.descriptor).parts
    end, dimensions = parts[0].stop, parts[-1].stop
    with_directions = count >= LEAST_IMAGES and profile.components < end
    moments, compared = _Moments(dimensions, end), [np.empty((0, end), np.float16)]
    step, compared_step, read = max(1, -(-count // MOST_IMAGES)), max(1, -(-count // COMPARED)), 0
    for page in pages:
        moments.add(page[-read % step :: step])
        if with_directions:
            compared.append(page[-read % compared_step :: compared_step, :end].astype(np.float16))
        read += len(page)
    mean, covariance, variances = moments.result()
    directions = (
        _directions(covariance, mean[:end], compared, profile.components) if with_directions else None
    )
    weight = np.ones(dimensions)
    for part in parts:
        weight[part.start : part.stop] = profile.weights.get(part.name, 1.0)
    deviation = without_constants(mean[end:], np.sqrt(variances)) * np.sqrt(dimensions - end)
    scale, length = np.sqrt(weight[end:]) / deviation, float(np.sqrt(weight[0]))
    return Projection(mean.astype(np.float32), directions, scale.astype(np.float32), length, count, version)


class _Moments:
    """Mean of d values, covariance of the first `end` and variances of the others, of vectors added page by page."""

    def __init__(self, dimensions: int, end: int) -> None:
        self._end, self._count = end, 0
        self._shift: Floats | None = None  # near the mean, so that little cancels
        self._total = np.zeros(dimensions)
        self._products = np.zeros((end, end))
        self._squares = np.zeros(dimensions - end)

    def add(self, vectors: Floats) -> None:
        """Add vectors (n, d)."""
        if not len(vectors):
            return
        if self._shift is None:
            self._shift = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        values = vectors - self._shift
        self._count += len(values)
        self._total += values.sum(axis=0, dtype=np.float64)
        self._products += values[:, : self._end].T @ values[:, : self._end]
        self._squares += np.square(values[:, self._end :], dtype=np.float64).sum(axis=0)

    def result(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return mean (d,), covariance (end, end) and variances (d - end,); 0 without vectors."""
        if self._shift is None:
            return self._total, self._products, self._squares
        mean, end = self._total / self._count, self._end
        covariance = self._products / self._count - np.outer(mean[:end], mean[:end])
        variances = np.maximum(self._squares / self._count - mean[end:] ** 2, 0.0)
        return mean + self._shift, covariance, variances


def _directions(
    covariance: NDArray[np.float64],
    mean: NDArray[np.float64],
    compared: list[NDArray[np.float16]],
    count: int,
) -> Floats:
    """Learn the directions (e, count) of values with a `mean` (e,) and `covariance` (e, e) from pages of images."""
    with OneBlasThread():  # more gain little, and take ten times as long on cores that are busy
        variances, principal = _principal_directions(covariance, min(WIDE * count, len(covariance)))
        centre, axes = mean.astype(np.float32), principal.astype(np.float32)
        values = np.concatenate([(page - centre) @ axes for page in compared])
        directions = principal @ learn_directions(values, variances, count)
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=0)[None], axis=0)
    return np.ascontiguousarray(directions * np.sign(largest), np.float32)


def _principal_directions(
    covariance: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the `count` greatest variances, descending, and their directions (e, count)."""
    from scipy.linalg import eigh  # only now: a service starts without it

    size = len(covariance)
    variances, directions = eigh(covariance, subset_by_index=(size - count, size - 1))
    return np.maximum(variances[::-1], 0.0), directions[:, ::-1]


Statistics = Standardisation | Projection


def read_statistics(text: str) -> Statistics:
    """Read the text of `to_json`."""
    fields = json.loads(text)
    if fields.pop("kind", None) == "projection":
        return Projection.from_fields(fields)
    mean, scale = np.array(fields["mean"], np.float32), np.array(fields["scale"], np.float32)
    return Standardisation(mean, scale, fields["fitted_on"])


def fit_statistics(raw: NDArray[np.float32], profile: Profile) -> Statistics:
    """Compute the statistics of raw vectors (n, d) for a profile."""
    if profile.is_projected:
        return fit_projection([raw], profile, len(raw))
    return fit_standardisation(raw, profile)


def part_bounds(profile: Profile, statistics: Statistics) -> tuple[tuple[int, int], ...]:
    """Return start and stop of each part of a normalised vector of this profile."""
    if isinstance(statistics, Projection):
        return statistics.parts
    return tuple((part.start, part.stop) for part in descriptors.get(profile.descriptor).parts)


def needs_refit(statistics: Statistics, images: int) -> bool:
    """Return whether the statistics of a collection of so many images are to be fitted again without being asked."""
    return isinstance(statistics, Projection) and statistics.needs_refit(images)
