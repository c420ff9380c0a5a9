"""Vectors to search with, in place of images."""

from typing import Any

import numpy as np

from cbir.errors import InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import Profile, vector_format
from cbir.store.safety.row_damage import vectors_not_finite


def check_profile(requested: str | None, vector: Any, profile: Profile) -> None:
    """Raise InvalidInput if a search names another profile than that of the collection.

    Parameters
    ----------
    requested : str or None
        Name or hash of the profile that `vector` was computed with; None if the search names none.
    vector : array-like or None
        What is searched with.
    profile : Profile
        Profile of the collection.
    """
    if requested is None:
        return
    if vector is None:
        raise InvalidInput("profile: says what `vector` was computed with; send that too")
    if requested not in (profile.name, profile.hash):
        raise InvalidInput(
            f"profile: the collection has the profile {profile.name} ({profile.hash}); vectors of another one cannot "
            "be compared with it"
        )


def check_vectors(vector: Any, profile: Profile) -> Floats:
    """Return one or several raw vectors as an array (v, d) float32.

    Parameters
    ----------
    vector : array-like
        (d,) or (v, d) raw values of the profile's descriptor.
    profile : Profile
        Profile of the collection.

    Raises
    ------
    InvalidInput
        For another number of values, values whose squares are not finite in float32, and no vector at all.
    """
    dimensions = vector_format(profile).dimensions
    expected = f"vector: the profile {profile.name} has vectors of {dimensions} finite numbers"
    try:
        with np.errstate(over="ignore"):
            vectors = np.atleast_2d(np.asarray(vector, np.float32))
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{expected}, all of one length") from None
    if vectors.ndim != 2 or not len(vectors) or vectors.shape[1] != dimensions:
        shape = "x".join(map(str, np.shape(vector))) or "a single number"
        raise InvalidInput(f"{expected}, not {shape}")
    if len(vectors_not_finite(vectors)):
        raise InvalidInput(f"{expected}, and the squares of these are not finite in 32 bits")
    return vectors


def normalise_vectors(vectors: Floats, statistics: Statistics) -> Floats:
    """Normalise raw vectors (v, d) as a view does; raises InvalidInput where distances to one would overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        normalised = np.stack([statistics.normalise(vector) for vector in vectors])
    if len(vectors_not_finite(normalised)):
        raise InvalidInput("vector: its values are too large to compare; send raw values of the descriptor")
    return normalised
