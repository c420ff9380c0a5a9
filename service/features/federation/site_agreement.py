"""Comparison of two sites before a vector is sent, and the file with a transform that both take over."""

import hashlib
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base.normalisation import Projection, Statistics, read_statistics
from cbir.store.base.profile import vector_format
from cbir.store.snapshot.stored_snapshot import transform_origin
from cbir.system.files import write_bytes
from service.features.federation.site_messages import SiteProfile

MAX_BYTES = 256 * 2**20


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


def site_profile(collection: Collection, settings: Settings) -> SiteProfile:
    """Return what other sites must agree with, and what answers contain; `collection` as the caller sees it."""
    return SiteProfile(
        profile=collection.profile.name,
        profile_hash=collection.profile.hash,
        transform=transform_fingerprint(collection.normalisation()),
        dimensions=vector_format(collection.profile).dimensions,
        images=collection.count(),
        labels=list(settings.federation_labels),
        thumbnails=settings.federation_thumbnails,
        ids=settings.federation_ids,
        results=settings.federation_results,
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
            "take over one file on both sides with `cbir admin federate adopt-transform`"
        )
    return None


class TransformFile(BaseModel):
    """Content of the file.

    profile, profile_hash: of the collection it comes from. origin: name of that collection, made of its key.
    fingerprint: of the transform. statistics: the transform as the collection stores it.
    """

    model_config = ConfigDict(extra="forbid")

    kind: Literal["cbir transform 1"] = "cbir transform 1"
    profile: str
    profile_hash: str
    origin: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    fingerprint: str
    statistics: str

    @classmethod
    def of_collection(cls, collection: Collection) -> Self:
        """Return the transform of a collection; raises InvalidInput before its first indexing run has ended."""
        statistics = collection.statistics()
        if statistics is None:
            raise InvalidInput(f"{collection.folder} has no transform yet; index images first")
        return cls(
            profile=collection.profile.name,
            profile_hash=collection.profile.hash,
            origin=transform_origin(collection.secret),
            fingerprint=transform_fingerprint(statistics),
            statistics=statistics.to_json(),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file; raises InvalidInput if it cannot be read or holds something else."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise InvalidInput(f"{path} is larger than any transform")
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
        except ValidationError:
            raise InvalidInput(
                f"{path} is not a transform; `cbir admin federate export-transform` writes one"
            ) from None

    def write(self, path: Path) -> None:
        """Write the file; raises InvalidInput if it cannot be written."""
        try:
            write_bytes(path, self.model_dump_json().encode())
        except OSError as error:
            raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None

    def statistics_for(self, collection: Collection) -> Statistics:
        """Return the transform for a collection; raises InvalidInput if it does not fit, or was changed."""
        profile = collection.profile
        if self.profile_hash != profile.hash:
            raise InvalidInput(
                f"the transform is for the profile {self.profile} ({self.profile_hash}); {collection.folder} has "
                f"{profile.name} ({profile.hash})"
            )
        try:
            statistics = read_statistics(self.statistics)
            sound = transform_fingerprint(statistics) == self.fingerprint and _is_finite(statistics)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            sound = False
        if not sound or len(statistics.mean) != vector_format(profile).dimensions:
            raise InvalidInput("the transform has changed since it was exported; export it again")
        return statistics


def _is_finite(statistics: Statistics) -> bool:
    arrays = [statistics.mean, statistics.scale]
    if isinstance(statistics, Projection) and statistics.directions is not None:
        arrays.append(statistics.directions)
    return all(bool(np.isfinite(array).all()) for array in arrays)
