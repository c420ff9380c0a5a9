"""Comparison of two sites before a vector is sent: profile, and values that normalise vectors."""

import hashlib

import numpy as np

from cbir.store.base.normalisation import Projection, Statistics
from cbir.store.base.profile import Profile, vector_format
from service.features.federation.exchange.site_messages import SiteProfile


def transform_fingerprint(statistics: Statistics) -> str:
    """Return a hash of what normalises vectors: two transforms with the same one give the same values."""
    arrays = [statistics.mean, statistics.scale]
    if isinstance(statistics, Projection):
        directions = statistics.directions
        length = np.array([statistics.length], np.float32)
        arrays += [np.empty(0, np.float32) if directions is None else directions, length]
    digest = hashlib.blake2b(type(statistics).__name__.encode(), digest_size=16)
    for array in arrays:
        digest.update(repr(array.shape).encode() + array.astype("<f4").tobytes())
    return digest.hexdigest()


def describe_site(
    profile: Profile, statistics: Statistics, images: int, shared: dict[str, object]
) -> SiteProfile:
    """Return what a site tells others about a collection.

    Parameters
    ----------
    profile : Profile
        Profile of the collection.
    statistics : Statistics
        What its vectors are normalised with.
    images : int
        Number of images that the caller may search among.
    shared : dict
        The fields of SiteProfile about what answers contain.
    """
    return SiteProfile.model_validate(
        {
            "profile": profile.name,
            "profile_hash": profile.hash,
            "transform": transform_fingerprint(statistics),
            "dimensions": vector_format(profile).dimensions,
            "images": images,
            **shared,
        }
    )


def difference(own_profile: SiteProfile, their_profile: SiteProfile) -> str | None:
    """Return in one line what keeps the distances of two sites from being comparable; None if they are."""
    if own_profile.profile_hash != their_profile.profile_hash:
        return (
            f"its profile is {their_profile.profile} ({their_profile.profile_hash}), "
            f"here it is {own_profile.profile} ({own_profile.profile_hash}); index with the same profile"
        )
    if own_profile.dimensions != their_profile.dimensions:
        return f"its vectors have {their_profile.dimensions} values, here they have {own_profile.dimensions}"
    if own_profile.transform != their_profile.transform:
        return (
            f"its transform is {their_profile.transform[:8]}, here it is {own_profile.transform[:8]}; "
            "take over one file on both sides with `cbir federate adopt-transform`"
        )
    return None
