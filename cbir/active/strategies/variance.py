"""The most uncertain images (Kadota et al., section 3.3)."""

import numpy as np

from cbir.active.candidate_pool import CandidatePool, Rows
from cbir.active.strategies.strategy_base import ImageStrategy, required_severity


class Variance(ImageStrategy):
    """The images whose score varies most between samples of the weights (eq. 3); ties by chance."""

    name = "variance"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        uncertain = required_severity(pool).variance[pool.rows]
        return pool.rows[np.lexsort((rng.random(len(uncertain)), -uncertain))[:count]]
