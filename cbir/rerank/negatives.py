"""Pseudo-negative examples: a seeded draw from the end of a ranking list."""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.ranking import worst


def draw(
    query: NDArray[np.float32], scores: NDArray[np.floating], *, P: int, sets: int, lowest: float, seed: int
) -> NDArray[np.int64]:
    """Places (sets, q) in `scores` (m,) of negative examples: `sets` draws of q, each without replacement.

    The pool is the share `lowest` of the list, but at least P places and never one of the P best;
    q = P, or the size of the pool where that is smaller, down to 0. A draw picks ranks, so it follows the order
    of the list and not that of its rows; it is seeded with `seed` and the query's content, so that the same
    query on the same list gives the same negatives.
    """
    pool, ranks = draw_ranks(query, len(scores), P=P, sets=sets, lowest=lowest, seed=seed)
    return worst(scores, pool)[ranks]


def draw_ranks(
    query: NDArray[np.float32], count: int, *, P: int, sets: int, lowest: float, seed: int
) -> tuple[int, NDArray[np.int64]]:
    """The size of the pool and what `draw` takes from it: (sets, q) ranks, 0 the last of a list of `count`."""
    pool = min(max(P, round(lowest * count)), max(count - P, 0))
    digest = blake2b(np.ascontiguousarray(query, np.float32).tobytes(), digest_size=16).digest()
    generator = np.random.default_rng([seed, int.from_bytes(digest, "little")])
    return pool, _without_replacement(generator, pool, min(P, pool), sets)


def _without_replacement(
    generator: np.random.Generator, pool: int, count: int, sets: int
) -> NDArray[np.int64]:
    """(sets, count) numbers below `pool`, different within a row, every subset equally likely (Floyd 1987)."""
    chosen = np.empty((sets, count), np.int64)
    for column in range(count):
        last = pool - count + column
        number = generator.integers(0, last, size=sets, endpoint=True)
        taken = (chosen[:, :column] == number[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, last, number)
    return chosen
