"""The pairs to ask next: never one twice, each chosen image in at least one."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cbir.active import strategies
from cbir.active.candidate_pool import CandidatePool, Pair, Rows, pair_up
from cbir.errors import InvalidInput
from cbir.severity.severity_estimate import SeverityEstimate


def select_pairs(
    strategy: str,
    severity: SeverityEstimate | None,
    asked: Iterable[Pair],
    share_or_count: float | int,
    rng: np.random.Generator,
    allowed: NDArray[np.bool_] | None = None,
) -> Rows:
    """New pairs (m, 2) of rows, who comes first by chance; none where all are asked.

    strategy: one of `strategies.names()`. severity: of all n images; None for a strategy that needs none. asked:
    pairs that are not to come again, in either order. share_or_count: a float from 0 to 1 is a share of the allowed
    images, an int a number of them; about as many pairs come back as images are chosen. allowed: (n,) the images to
    choose from, all where None. Raises InvalidInput.
    """
    chosen = strategies.strategy(strategy)
    if severity is None and (allowed is None or chosen.needs_severity):
        wanted = "the mask of allowed images" if not chosen.needs_severity else "the severity of the images"
        raise InvalidInput(f"the strategy {strategy} needs {wanted}")
    count = len(severity) if severity is not None else len(np.asarray(allowed))
    if allowed is not None and np.asarray(allowed).shape != (count,):
        raise InvalidInput(f"{count} images need as many marks of whether they are allowed")
    if severity is not None and not (
        np.isfinite(severity.mean).all() and np.isfinite(severity.variance).all()
    ):
        raise InvalidInput("severities must be finite numbers; at least one is not")
    pool = CandidatePool(count, severity, asked, allowed)
    most = count if allowed is None else int(np.count_nonzero(allowed))
    images = min(share_of(share_or_count, most), len(pool.rows))
    return chosen.pairs(pool, images, rng) if images else np.empty((0, 2), np.int64)


def first_pairs(n: int, share: float, pairs: int | None, rng: np.random.Generator) -> Rows:
    """Pairs (m, 2) to begin with, of a `share` of n images drawn at random (Kadota et al., section 3.1).

    Each drawn image is in at least one. pairs: how many, None for as many as images are drawn; where they are too few
    for all drawn images, fewer images are drawn. Raises InvalidInput.
    """
    if n < 2:
        raise InvalidInput(f"comparing needs two images; there {'is one' if n == 1 else 'are none'}")
    if pairs is not None and pairs < 1:
        raise InvalidInput(f"at least one pair is needed to begin with, not {pairs}")
    count = max(2, share_of(float(share), n))
    if pairs is not None:
        count = min(count, 2 * pairs)
    pool = CandidatePool(n, None, (), None)
    return pair_up(pool, rng.choice(n, count, replace=False), count if pairs is None else pairs, rng)


def share_of(share_or_count: float | int, most: int) -> int:
    """How many of `most` images a share (float) or a number (int) means. Raises InvalidInput."""
    if isinstance(share_or_count, int | np.integer) and not isinstance(share_or_count, bool):
        if share_or_count < 0:
            raise InvalidInput(f"a number of images is 0 or more, not {share_or_count}")
        return min(int(share_or_count), most)
    if isinstance(share_or_count, float) and 0 <= share_or_count <= 1:
        return int(np.ceil(share_or_count * most - 1e-9))
    raise InvalidInput(f"a share is a float from 0 to 1, a number of images an int; not {share_or_count!r}")
