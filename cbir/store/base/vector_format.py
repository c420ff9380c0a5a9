"""Binary format of the raw vectors in the database: float32, or float16 for the values of encoders."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cbir import descriptors
from cbir.errors import InvalidInput
from cbir.store.base.profile import Profile

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
