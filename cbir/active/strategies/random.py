"""Images at random: what Kadota et al. call "w/o UBS" when asked in rounds."""

import numpy as np

from cbir.active.pool import Pool, Rows
from cbir.active.strategies.base import ImageStrategy


class Random(ImageStrategy):
    """Every image of the pool with the same chance."""

    name = "random"
    needs_severity = False

    def images(self, pool: Pool, count: int, rng: np.random.Generator) -> Rows:
        return rng.choice(pool.rows, min(count, len(pool.rows)), replace=False)
