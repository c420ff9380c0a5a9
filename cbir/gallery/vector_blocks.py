"""Vectors in blocks that are never copied as a whole, selections of rows, and a whitened space of the vectors."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUPS = 16  # for each value that is looked for
LEAST_MEMBERS = 8  # of a group; with fewer, selecting among all is as fast

CHUNK = 2048  # rows a thread works on at a time: 2048 x 168 float32 and their results stay in its cache
AS_A_WHOLE = 20_000  # vectors: as many are compared and ranked in milliseconds, without an index or a GPU

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Scores = NDArray[np.floating]


def large_values(values: NDArray[Any], count: int) -> NDArray[np.int64] | None:
    """Return ascending indices of few values, among which are the `count` largest and all that are equal to them.

    At least `count` values are as large as the count-th largest of the maxima of groups, so that smaller ones do not
    matter. None where that leaves no fewer values.
    """
    groups = GROUPS * count
    members = len(values) // groups if count else 0
    if members < LEAST_MEMBERS:
        return None
    maxima = values[: members * groups].reshape(members, groups).max(axis=0)
    bound = np.partition(maxima, groups - count)[groups - count]
    return np.flatnonzero(values >= bound)


def spread_rows(count: int, most: int) -> Rows:
    """Return at most `most` rows of 0..count - 1, evenly spread and ascending."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


def is_among(candidates: Rows, rows: Rows) -> NDArray[np.bool_]:
    """Return whether each candidate is in ascending `rows`."""
    return positions_among(candidates, rows)[1]


def positions_among(candidates: Rows, rows: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the positions in ascending `rows` of those candidates (m,) that are there, and which those are (m,)."""
    if not len(rows):
        return np.empty(0, np.int64), np.zeros(len(candidates), bool)
    if rows[-1] - rows[0] == len(rows) - 1:  # consecutive: bisection of a million takes ten times as long
        positions = candidates - rows[0]
        present = (positions >= 0) & (positions < len(rows))
    else:
        positions = np.minimum(np.searchsorted(rows, candidates), len(rows) - 1)
        present = rows[positions] == candidates
    return positions[present], np.asarray(present)


def table_of(rows: Rows, count: int) -> NDArray[np.bool_]:
    """Return which of `count` rows are among some: read sooner than these are bisected."""
    table = np.zeros(count, bool)
    table[rows] = True
    return table


def union(*several: Rows) -> Rows:
    """Return all numbers once, ascending; sorting them is several times as fast as the hashing of `numpy.unique`."""
    numbers = np.sort(np.concatenate([np.empty(0, np.int64), *several]))
    return np.asarray(numbers[np.diff(numbers, prepend=-1) != 0])


@dataclass(frozen=True, eq=False)
class VectorBlocks:
    """n vectors of d dimensions; a row is a vector's index over all blocks, 0..n-1.

    blocks: float32 matrices (n_b, d), C-contiguous.
    """

    blocks: tuple[Floats, ...]

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    @property
    def dimensions(self) -> int:
        return int(self.blocks[0].shape[1])

    def chunks(self, rows: Rows | None = None) -> Iterator[tuple[slice, Floats]]:
        """Yield at most CHUNK vectors at a time, in order: of all rows, or of ascending `rows`.

        Yields (slice into the result, (m, d) float32): views of consecutive rows, else copies.
        """
        if rows is not None:
            for start in range(0, len(rows), CHUNK):
                piece = rows[start : start + CHUNK]
                yield slice(start, start + len(piece)), self._view_or_copy(piece)
            return
        start = 0
        for block in self.blocks:
            for first in range(0, len(block), CHUNK):
                vectors = block[first : first + CHUNK]
                yield slice(start, start + len(vectors)), vectors
                start += len(vectors)

    def _view_or_copy(self, rows: Rows) -> Floats:
        """Return `vectors(rows)`, as a view if the ascending rows are consecutive within one block."""
        first, last = int(rows[0]), int(rows[-1])
        if last - first + 1 == len(rows):
            for block in self.blocks:
                if first < len(block):
                    return block[first : last + 1] if last < len(block) else self.vectors(rows)
                first, last = first - len(block), last - len(block)
        return self.vectors(rows)

    def vectors(self, rows: Rows) -> Floats:
        """Return a copy (m, d) float32 of `rows`."""
        if len(self.blocks) == 1:
            return self.blocks[0][rows]
        vectors = np.empty((len(rows), self.dimensions), np.float32)
        first = 0
        for block in self.blocks:
            inside = (rows >= first) & (rows < first + len(block))
            vectors[inside] = block[rows[inside] - first]
            first += len(block)
        return vectors


POWER = 0.35  # of the covariance to divide by; 0.5 whitens
FLOOR = 0.5  # added to its eigenvalues, in units of their mean: directions without variance stay small
SAMPLE = 5000  # images that the covariance is computed from
LEAST = 1e-12  # a shorter vector has no direction
WITHIN, LIFT = 0.95, 2.5  # share of vectors, and radius of their sphere in the distance that they are within
UNEQUAL = 1e-3  # of the longest vector; float16 rounds lengths by less

KEPT = 8  # spaces; one of 1,280 dimensions has 6.5 MB


@dataclass(frozen=True, eq=False)
class Space:
    """Whitened space, in which neighbours are compared: x becomes (x - centre) @ projection, scaled to length 1.

    Raw or standardised descriptors measure what varies most, and what many dimensions repeat. Dividing by a power of
    the collection's covariance (learned whitening: Jegou & Chum 2012, Negative evidences and co-occurrences in image
    retrieval) gives rare variation its weight; a full division would amplify noise.

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
        if self.is_plain:
            return _lengths(vectors)  # sooner than of a copy
        return _lengths(self._project(vectors))

    @property
    def is_plain(self) -> bool:
        """True if the positions are the vectors themselves, scaled to length 1."""
        return self.projection is None and not self.centre.any()

    def raised(self, vectors: Floats) -> Scores:
        """Return vectors (n, d) as `centre` and `projection` take them: as they are."""
        return vectors

    def _project(self, vectors: Floats) -> Scores:
        projected = self.raised(vectors) - self.centre
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


@dataclass(frozen=True, eq=False)
class LiftedSpace(Space):
    """Space of vectors of different lengths, whose angles follow their Euclidean distances.

    They lie on a sphere above their middle, so wide that chords are nearly as long as the distances.

    middle: (d,) float64. radius: of the sphere; vectors that are farther from the middle lie on its equator. centre:
    0, of d + 1 dimensions.
    """

    middle: Doubles
    radius: float

    @property
    def is_plain(self) -> bool:
        return False

    def raised(self, vectors: Floats) -> Scores:
        offsets = (vectors - self.middle) / self.radius
        heights = np.sqrt(np.maximum(1.0 - np.einsum("ij,ij->i", offsets, offsets), 0.0))
        return np.column_stack([offsets, heights])


def euclidean_space(vectors: Floats) -> Space:
    """Return a space whose angles order vectors (n, d) as their distances do: the plain one if all are as long."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if np.ptp(lengths) <= UNEQUAL * lengths.max():
        return plain_space(vectors.shape[1])
    sample = vectors[spread_rows(len(vectors), SAMPLE)].astype(np.float64)
    middle = np.median(sample, axis=0)  # few far vectors do not move it
    distances = np.linalg.norm(sample - middle, axis=1)
    radius = LIFT * float(np.quantile(distances, WITHIN) or distances.max() or 1.0)
    return LiftedSpace(np.zeros(len(middle) + 1, np.float32), None, middle, radius)


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
