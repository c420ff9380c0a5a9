"""Raw vectors computed back from normalised ones."""

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cbir.store.base.standardisation import Standardisation

NEAR = 16  # neighbouring float32 values tried on either side of the computed one
MAX_TRIED = 100_000  # combinations of values compared with the checksum


def recover_vector(
    normalised: NDArray[np.float32],
    statistics: Standardisation,
    damaged: bytes,
    is_original: Callable[[bytes], bool],
) -> bytes:
    """Return the raw vector, float32 in little-endian order, that the snapshot's vector was computed from.

    Values of the damaged vector that normalise to the snapshot's are kept. Several raw values may normalise to the
    same one; those that the checksum confirms are the original, and else the nearest is as good for every search.

    Parameters
    ----------
    normalised : (d,) float32
        Vector of the snapshot.
    statistics : Standardisation
        Statistics that it was normalised with.
    damaged : bytes
        Vector of the database.
    is_original : callable
        Whether a vector has the checksum that was stored.
    """
    raw = _computed(normalised, statistics)
    if len(damaged) == raw.nbytes:
        stored = np.frombuffer(damaged, "<f4")
        with np.errstate(all="ignore"):
            exact = statistics.normalise(stored) == normalised
        raw[exact] = stored[exact]
    else:
        exact = np.zeros(len(raw), bool)
    choices = {
        int(position): _equivalent(normalised, statistics, raw, int(position))
        for position in np.flatnonzero(~exact)
    }
    for position, equivalent in choices.items():
        raw[position] = equivalent[0]
    if math.prod(map(len, choices.values())) <= MAX_TRIED:
        for values in itertools.product(*choices.values()):
            candidate = raw.copy()
            candidate[list(choices)] = values
            if is_original(candidate.astype("<f4").tobytes()):
                return candidate.astype("<f4").tobytes()
    return raw.astype("<f4").tobytes()


def _computed(normalised: NDArray[np.float32], statistics: Standardisation) -> NDArray[np.float32]:
    scale = np.where(statistics.scale == 0, 1, statistics.scale).astype(np.float64)  # a part of weight 0
    raw: NDArray[np.float32] = (normalised / scale + statistics.mean).astype(np.float32)
    return raw


def _equivalent(
    normalised: NDArray[np.float32], statistics: Standardisation, raw: NDArray[np.float32], position: int
) -> list[np.float32]:
    """Return raw values near the computed one that normalise to the snapshot's, the nearest first."""
    mean, scale, start = statistics.mean[position], statistics.scale[position], raw[position]
    candidates = [start]
    below = above = start
    for _ in range(NEAR):
        below, above = np.nextafter(below, np.float32(-np.inf)), np.nextafter(above, np.float32(np.inf))
        candidates += [below, above]
    equal = [value for value in candidates if np.float32(value - mean) * scale == normalised[position]]
    return equal or [start]
