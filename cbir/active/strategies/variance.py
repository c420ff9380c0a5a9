"""The most uncertain images (Kadota et al., section 3.3)."""

import numpy as np

from cbir.active.pool import Pool, Rows
from cbir.active.strategies.base import ImageStrategy, severity_of


class Variance(ImageStrategy):
    """The images whose score varies most between samples of the weights (eq. 3); ties by chance."""

    name = "variance"

    def images(self, pool: Pool, count: int, rng: np.random.Generator) -> Rows:
        uncertain = severity_of(pool).variance[pool.rows]
        return pool.rows[np.lexsort((rng.random(len(uncertain)), -uncertain))[:count]]
