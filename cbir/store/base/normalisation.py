"""Normalisation of raw descriptor values with statistics of a collection, in the way that its profile names."""

import json

import numpy as np
from numpy.typing import NDArray

from cbir import descriptors
from cbir.store.base.profile import Profile
from cbir.store.base.projection import Projection, fit_projection
from cbir.store.base.standardisation import Standardisation, fit_standardisation

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
