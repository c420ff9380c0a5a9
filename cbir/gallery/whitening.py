"""Whitened space for comparing neighbours: balanced parts, damped correlations, unit length.

Raw or standardised descriptors measure what varies most, and what many dimensions repeat. Dividing by a power of the
collection's covariance (learned whitening: Jegou & Chum 2012, Negative evidences and co-occurrences in image
retrieval) gives rare variation its weight; a full division would amplify noise.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock

import numpy as np

from cbir.gallery.vector_blocks import Floats, Rows, Scores, spread_rows

POWER = 0.35  # of the covariance to divide by; 0.5 whitens
FLOOR = 0.5  # added to its eigenvalues, in units of their mean: directions without variance stay small
SAMPLE = 5000  # images that the covariance is computed from
LEAST = 1e-12  # a shorter vector has no direction

KEPT = 8  # spaces; one of 1,280 dimensions has 6.5 MB


@dataclass(frozen=True, eq=False)
class Space:
    """Transform x to (x - centre) @ projection, scaled to length 1.

    centre: (d,) float32. projection: (d, d) float32; None: the identity.
    """

    centre: Floats
    projection: Floats | None

    def transform(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return the positions (n, d) float32 of vectors (n, d), of length 1, and their lengths (n,) before scaling.

        A vector at the centre has no direction: it stays 0.
        """
        projected = self._project(vectors)
        lengths = _lengths(projected)
        projected /= lengths[:, None]
        return projected.astype(np.float32, copy=False), lengths

    def lengths(self, vectors: Floats) -> Floats:
        """Return the lengths (n,) that `transform` returns, without positions."""
        return _lengths(self._project(vectors))

    def _project(self, vectors: Floats) -> Scores:
        projected = vectors - self.centre
        return projected if self.projection is None else np.asarray(projected @ self.projection)

    def projections(self, units: Floats) -> Floats:
        """Return projection @ u (d, m) float32 of positions u, the rows of `units` (m, d)."""
        towards = units.T if self.projection is None else self.projection @ units.T
        return np.ascontiguousarray(towards)


def _lengths(projected: Scores) -> Floats:
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", projected, projected)), np.float32(LEAST))
    return np.asarray(lengths, np.float32)


def plain_space(dimensions: int) -> Space:
    """Return the space of vectors that are compared as they are, by the angle between them."""
    return Space(np.zeros(dimensions, np.float32), None)


def fit_space(vectors: Floats, parts: Sequence[tuple[int, int]] = ()) -> Space:
    """Fit the space to a collection's normalised vectors (n, d), of which at most SAMPLE are read.

    parts: start and stop of the descriptor's parts; each weighs as the root of its dimensions, so that a part of
    150 does not outweigh one of 6. Without them all dimensions weigh the same.
    """
    dimensions = vectors.shape[1]
    weight = np.ones(dimensions)
    for start, stop in parts:
        weight[start:stop] = (stop - start) ** -0.25  # of a value; its square enters a distance
    if not len(vectors):
        return Space(np.zeros(dimensions, np.float32), np.diag(weight).astype(np.float32))
    sample = vectors[spread_rows(len(vectors), SAMPLE)].astype(np.float64)
    centre = sample.mean(axis=0)
    weighted = (sample - centre) * weight
    variances, directions = np.linalg.eigh(weighted.T @ weighted / len(sample))
    variances = np.maximum(variances, 0.0)
    damped = (variances / max(float(variances.mean()), LEAST) + FLOOR) ** -POWER
    projection = weight[:, None] * (directions * damped) @ directions.T
    return Space(centre.astype(np.float32), projection.astype(np.float32))


class SpaceCache:
    """The spaces used last, by the rows that they were fitted to. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spaces: OrderedDict[bytes, Space] = OrderedDict()

    def get(self, rows: Rows) -> Space | None:
        """Return the space that was fitted to `rows`; None if it is not kept."""
        key = _key(rows)
        with self._lock:
            if key in self._spaces:
                self._spaces.move_to_end(key)
            return self._spaces.get(key)

    def put(self, rows: Rows, space: Space) -> None:
        """Keep the space that was fitted to `rows`."""
        with self._lock:
            self._spaces[_key(rows)] = space
            if len(self._spaces) > KEPT:
                self._spaces.popitem(last=False)


def _key(rows: Rows) -> bytes:
    return blake2b(rows.tobytes(), digest_size=16).digest()
