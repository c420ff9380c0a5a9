"""Profiles: descriptor, format, normalisation and metric of a collection's vectors, and its re-ranking settings."""

import hashlib
import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cbir import descriptors
from cbir.descriptors import network_descriptors, slit_lamp_descriptor
from cbir.descriptors.descriptor import Descriptor
from cbir.errors import InvalidInput
from cbir.images.volume import VolumeGrid
from cbir.system.device import Device

# Best of the weights tried, 0.36 to 1, which differ by half a point at most: bench/results/embeddings.md
BESIDE_WEIGHT = 0.5

# EPRF on vectors of length 1, by method: lists agree on images like the query, not on a thousand; the lowest tenth of
# the list is too easy. bench/results/eprf_settings.md
UNIT_EPRF: dict[str, Any] = {
    "eprf": {
        "K": 80, "N": 120, "P": 20, "T1": 2, "T2": 3, "C": 0.1, "lowest": 0.95, "sharpness": 3.5, "closeness": 0.6,
        "sure": 1.0, "evidence": 1.0,
    },
    "fuzzy-eprf": {"N": 120, "lowest": 0.95, "closeness": 0.6, "sure": 0.96, "evidence": 1.0},
}  # fmt: skip

# With those of other methods on projected vectors
PROJECTED_EPRF: dict[str, Any] = {"N": 200, "T1": 6, "T2": 6, "lowest": 0.9, **UNIT_EPRF}


class Profile(BaseModel):
    """Profile of a collection. Vectors of two profiles can be compared only if their hashes are equal.

    descriptor: name of a descriptor.
    normalisation: "standardise" (each dimension to mean 0, deviation 1 over the collection), "none", or "beside": the
    first part, an embedding, to a squared length of d, the number of all dimensions, as standardised vectors have it
    on average; the others standardised, then scaled to that together (less, where some values never vary). "project":
    the first part, an encoder's values, centred, projected to `components` directions learned from the collection and
    scaled to length 1; the others standardised, then scaled to that together.
    components: of "project"; those of the encoder if it has fewer.
    weights: factor of each part's share of the squared distance, 1 by default.
    metric: of the normalised vectors.
    rerank: parameters of the re-rankers that differ from their defaults, for instance a tuned C and gamma.
    model: folder of a trained embedding or slit-lamp model; not stored.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    descriptor: str
    normalisation: Literal["standardise", "none", "beside", "project"] = "standardise"
    components: int = Field(default=128, ge=2, le=4096)
    weights: dict[str, float] = {}
    metric: Literal["euclidean"] = "euclidean"
    rerank: dict[str, Any] = {}
    model: Path | None = Field(default=None, exclude=True, repr=False)

    @field_validator("weights")
    @classmethod
    def _weights_are_factors(cls, weights: dict[str, float]) -> dict[str, float]:
        for part, weight in weights.items():
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(f"the weight of {part} must be a finite number of at least 0, not {weight}")
        return weights

    @model_validator(mode="after")
    def _weights_name_parts(self) -> "Profile":
        part_names = {part.name for part in descriptors.get(self.descriptor).parts}
        for part in self.weights.keys() - part_names:
            raise ValueError(f"{self.name} has no part {part}; it has {', '.join(sorted(part_names))}")
        if all(self.weights.get(part) == 0 for part in part_names):
            raise ValueError("with all weights 0 every image is at distance 0")
        return self

    @property
    def is_projected(self) -> bool:
        """True if the vectors are an encoder's, projected to directions learned from the collection."""
        return self.normalisation == "project"

    @property
    def has_model(self) -> bool:
        """True if the descriptor is a trained model that the collection keeps a copy of."""
        names = (network_descriptors.EMBEDDING_NAME, slit_lamp_descriptor.SLIT_LAMP)
        return any(name.fullmatch(self.descriptor) for name in names)

    @property
    def volume_grid(self) -> VolumeGrid | None:
        """Grid of the CT series that the profile describes; None if it describes images."""
        return network_descriptors.volume_grid(self.descriptor)

    def load_descriptor(self, device: Device = "auto") -> Descriptor:
        """Return the descriptor, with its model, whose network describes batches on `device`."""
        return descriptors.get(self.descriptor, self.model, device)

    @property
    def hash(self) -> str:
        """Hash of everything that determines the vectors, 16 hexadecimal digits; re-ranking settings do not count."""
        weights = {part: weight for part, weight in sorted(self.weights.items()) if weight != 1.0}
        fields = {"descriptor", "normalisation", "weights", "metric"}
        fields |= {"components"} if self.is_projected else set()
        text = self.model_copy(update={"weights": weights}).model_dump_json(include=fields)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def settings_of_new(profile: Profile) -> dict[str, Any]:
    """Return the settings of EPRF that a new collection with the descriptor of this profile stores."""
    if network_descriptors.JOIN in profile.descriptor:
        return {}
    if profile.is_projected:
        return deepcopy(PROJECTED_EPRF)
    is_embedding = network_descriptors.EMBEDDING_NAME.fullmatch(profile.descriptor)
    return deepcopy(UNIT_EPRF) if is_embedding else {}


def get(name: str, weights: dict[str, float] | None = None) -> Profile:
    """Return the profile of a descriptor, an encoder, the folder of a trained model, or NETWORK+DESCRIPTOR.

    `name` is one of these, `weights` are factors by part; a descriptor beside a network has BESIDE_WEIGHT by
    default. Raises InvalidInput for an unknown name.
    """
    try:
        descriptor, title, model = descriptors.resolve_descriptor(name)
        parts = descriptors.get(descriptor).parts
        if parts[0].half:
            beside = {part.name: BESIDE_WEIGHT for part in parts[1:]}
            profile = Profile(
                name=title, descriptor=descriptor, normalisation="project", weights=beside | (weights or {})
            )
            return profile.model_copy(update={"rerank": settings_of_new(profile)})
        if not network_descriptors.EMBEDDING_NAME.fullmatch(descriptor):
            return Profile(name=title, descriptor=descriptor, model=model, weights=weights or {})
        others = parts[1:]
        profile = Profile(
            name=title,
            descriptor=descriptor,
            model=model,
            normalisation="beside" if others else "none",
            weights={part.name: BESIDE_WEIGHT for part in others} | (weights or {}),
        )
        return profile.model_copy(update={"rerank": settings_of_new(profile)})
    except ValidationError as error:
        raise InvalidInput(f"profile {name}: {error.errors()[0]['msg']}") from error


SINGLE, HALF = np.dtype("<f4"), np.dtype("<f2")


@dataclass(frozen=True)
class VectorFormat:
    """Format of vectors of d values. parts: start, stop and type of each range of values, in order."""

    parts: tuple[tuple[int, int, np.dtype[np.floating]], ...]

    @property
    def dimensions(self) -> int:
        """Number of values d."""
        return self.parts[-1][1]

    @property
    def size(self) -> int:
        """Bytes of a vector."""
        return sum((stop - start) * kind.itemsize for start, stop, kind in self.parts)

    def encode(self, vector: NDArray[np.float32]) -> bytes:
        """Return the bytes of a vector (d,). Raises InvalidInput if a value is too large for float16."""
        with np.errstate(over="ignore"):
            pieces = [np.asarray(vector[start:stop], kind) for start, stop, kind in self.parts]
        for (start, stop, kind), piece in zip(self.parts, pieces, strict=True):
            if kind == HALF and not np.array_equal(np.isfinite(piece), np.isfinite(vector[start:stop])):
                raise InvalidInput("the encoder's values exceed 65504, the range of float16")
        return b"".join(piece.tobytes() for piece in pieces)

    def decode(self, stored: Sequence[bytes]) -> NDArray[np.float32]:
        """Return the vectors (n, d) float32 of n times `size` bytes; read-only if they are float32 throughout."""
        content = b"".join(stored)
        if all(kind == SINGLE for *_, kind in self.parts):
            return np.frombuffer(content, SINGLE).reshape(-1, self.dimensions)
        rows = np.frombuffer(content, np.uint8).reshape(-1, self.size)
        vectors = np.empty((len(rows), self.dimensions), np.float32)
        offset = 0
        for start, stop, kind in self.parts:
            end = offset + (stop - start) * kind.itemsize
            vectors[:, start:stop] = np.ascontiguousarray(rows[:, offset:end]).view(kind)
            offset = end
        return vectors


@lru_cache(maxsize=8)
def _format_of(descriptor: str) -> VectorFormat:
    parts = descriptors.get(descriptor).parts
    return VectorFormat(tuple((part.start, part.stop, HALF if part.half else SINGLE) for part in parts))


def vector_format(profile: Profile) -> VectorFormat:
    """Return the format of the vectors of a collection with this profile."""
    return _format_of(profile.descriptor)
