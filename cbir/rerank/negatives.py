"""Pseudo-negative examples: a seeded draw from the end of a ranking list."""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.ranking import bottom_k
from cbir.gallery.vector_blocks import Floats, Scores

Ranks = NDArray[np.int64]


def draw_negatives(query: Floats, scores: Scores, *, P: int, sets: int, lowest: float, seed: int) -> Ranks:
    """Draw negative examples for each of several training sets.

    A draw picks ranks, so it follows the order of the list and not that of its rows. It is seeded with `seed` and
    the content of the query: the same query on the same list gives the same negatives.

    Parameters
    ----------
    query : (d,) float32
        Query vector, part of the seed.
    scores : (m,) floating
        Scores of the list.
    P : int
        Negatives in a set.
    sets : int
        Number of draws, each without replacement.
    lowest : float in [0, 1]
        Share of the list to draw from: at least P places, and never one of the P best.
    seed : int
        Seed of the draw.

    Returns
    -------
    (sets, q) int64
        Places in `scores`; q = P, or fewer, down to 0, where the pool is smaller.
    """
    pool, ranks = draw_negative_ranks(query, len(scores), P=P, sets=sets, lowest=lowest, seed=seed)
    return bottom_k(scores, pool)[ranks]


def draw_negative_ranks(
    query: Floats, count: int, *, P: int, sets: int, lowest: float, seed: int
) -> tuple[int, Ranks]:
    """Draw the ranks that `draw_negatives` picks.

    Parameters
    ----------
    query : (d,) float32
        Query vector, part of the seed.
    count : int
        Length of the list.
    P, sets, lowest, seed
        As in `draw_negatives`.

    Returns
    -------
    pool : int
        Number of ranks to draw from.
    ranks : (sets, q) int64
        0 is the last rank of the list.
    """
    pool = min(max(P, round(lowest * count)), max(count - P, 0))
    digest = blake2b(np.ascontiguousarray(query, np.float32).tobytes(), digest_size=16).digest()
    generator = np.random.default_rng([seed, int.from_bytes(digest, "little")])
    return pool, _without_replacement(generator, pool, min(P, pool), sets)


def _without_replacement(generator: np.random.Generator, pool: int, count: int, sets: int) -> Ranks:
    """Draw (sets, count) numbers below `pool`, distinct within a row, every subset equally likely (Floyd 1987)."""
    ranks = np.empty((sets, count), np.int64)
    for column in range(count):
        last = pool - count + column
        number = generator.integers(0, last, size=sets, endpoint=True)
        repeated = (ranks[:, :column] == number[:, None]).any(axis=1)
        ranks[:, column] = np.where(repeated, last, number)
    return ranks
