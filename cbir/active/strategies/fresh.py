"""Two images in every pair that nobody compared yet: ours."""

import numpy as np

from cbir.active.pool import Pool, Rows, pair_up
from cbir.active.strategies.base import Strategy, severity_of


class Fresh(Strategy):
    """Of the images in no pair yet the most uncertain, two of them a pair; then those that were asked about.

    A round's images paired among themselves are in two pairs each. The same number of answers about twice as many
    images tells more of what images look like, and costs a person no more.
    """

    name = "fresh"

    def pairs(self, pool: Pool, count: int, rng: np.random.Generator) -> Rows:
        uncertain = severity_of(pool).variance[pool.rows]
        known = np.isin(pool.rows, pool.asked)
        order = np.lexsort((rng.random(len(known)), -uncertain, known))
        return pair_up(pool, pool.rows[order[: 2 * count]], count, rng)
